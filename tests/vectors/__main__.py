"""``python -m tests.vectors KIND FILE...``: run vector files and say which cases hold."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml.error import YAMLError
from stream_guard_compliance.proposed_frames import Proposal

from tests.vectors.behaviour import BehaviourScores, is_behaviour, proposal_lines, read_proposals, run_behaviour
from tests.vectors.case import Case, LeftOut, Runner, read_cases, run_case
from tests.vectors.labels import Scores, is_label, run_label
from tests.vectors.runners import RUNNERS

_LONGEST = 600


def main(arguments: Sequence[str]) -> int:
    """Print a line a case and the totals; return 1 when a case fails, 2 for bad usage."""
    rest, folder = _option(arguments[1:], "--prompts")
    names, proposals = _option(rest, "--proposals")
    files = [Path(name) for name in names]
    if not files or arguments[0] not in RUNNERS:
        options = "[--prompts FOLDER] [--proposals FILE]"
        print(f"usage: python -m tests.vectors {{{'|'.join(RUNNERS)}}} FILE... {options}", file=sys.stderr)
        return 2
    beside = Beside(folder, read_proposals(proposals) if proposals else {})
    passed = failed = 0
    left_out: Counter[str] = Counter()
    for path in files:
        try:
            cases = list(read_cases(path))
        except (OSError, ValueError, AttributeError, TypeError, YAMLError) as error:
            failed += 1
            print(f"FAIL {path}: no file of cases: {error}")
            continue
        for case in cases:
            verdict = run_case(_runner(arguments[0], case, beside), case.data)
            if isinstance(verdict, LeftOut):
                left_out[verdict.reason] += 1
                print(f"left out {case.name}: {verdict.reason}", flush=True)
            elif verdict is None:
                passed += 1
                print(f"pass {case.name}", flush=True)
            else:
                failed += 1
                print(f"FAIL {case.name}: {_one_line(verdict)}", flush=True)
    for reason, count in left_out.items():
        print(f"left out: {count} ({reason})")
    if beside.labels.confusion:
        print("\n".join(beside.labels.lines()))
    if beside.behaviour.is_used:
        print("\n".join(beside.behaviour.lines()))
        print("\n".join(proposal_lines(proposals, folder) if proposals and folder else ()))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


@dataclass(frozen=True, slots=True)
class Beside:
    """What cases of real prompts need beside themselves, and what came of them."""

    prompts: Path | None
    proposals: dict[str, list[Proposal]]
    labels: Scores = field(default_factory=Scores)
    behaviour: BehaviourScores = field(default_factory=BehaviourScores)


def _option(arguments: Sequence[str], name: str) -> tuple[list[str], Path | None]:
    """Return the arguments without an option, and its value."""
    rest = list(arguments)
    if name not in rest[:-1]:
        return rest, None
    at = rest.index(name)
    value = Path(rest[at + 1])
    del rest[at : at + 2]
    return rest, value


def _runner(kind: str, case: Case, beside: Beside) -> Runner:
    folder = beside.prompts
    if kind != "compliance" or not (is_label(case.data) or is_behaviour(case.data)):
        return RUNNERS[kind]
    if folder is None:
        return lambda _data: LeftOut("a sentence of a real prompt: say with --prompts where the prompts are")
    if is_behaviour(case.data):
        proposed = beside.proposals.get(case.data["prompt"], [])
        return lambda data: run_behaviour(data, folder, beside.behaviour, proposed)
    return lambda data: run_label(data, folder, beside.labels)


def _one_line(text: str) -> str:
    """Return the text as one line of at most some hundred characters that any terminal takes."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
