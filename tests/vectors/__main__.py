"""``python -m tests.vectors KIND FILE...``: run vector files and say which cases hold."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ruamel.yaml.error import YAMLError

from tests.vectors.case import Case, LeftOut, Runner, read_cases, run_case
from tests.vectors.labels import Scores, is_label, run_label
from tests.vectors.runners import RUNNERS

_LONGEST = 600


def main(arguments: Sequence[str]) -> int:
    """Print a line a case and the totals; return 1 when a case fails, 2 for bad usage."""
    files, prompts = _prompts(arguments[1:])
    if not files or arguments[0] not in RUNNERS:
        print(f"usage: python -m tests.vectors {{{'|'.join(RUNNERS)}}} FILE... [--prompts FOLDER]", file=sys.stderr)
        return 2
    scores = Scores()
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
            verdict = run_case(_runner(arguments[0], case, prompts, scores), case.data)
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
    if scores.confusion:
        print("\n".join(scores.lines()))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _prompts(arguments: Sequence[str]) -> tuple[list[Path], Path | None]:
    """Return the files of cases, and the folder with the prompts that labelled sentences stand in."""
    rest = list(arguments)
    folder = None
    if "--prompts" in rest[:-1]:
        at = rest.index("--prompts")
        folder = Path(rest[at + 1])
        del rest[at : at + 2]
    return [Path(name) for name in rest], folder


def _runner(kind: str, case: Case, prompts: Path | None, scores: Scores) -> Runner:
    if kind != "compliance" or not is_label(case.data):
        return RUNNERS[kind]
    if prompts is None:
        return lambda _data: LeftOut("a sentence of a real prompt: say with --prompts where the prompts are")
    return lambda data: run_label(data, prompts, scores)


def _one_line(text: str) -> str:
    """Return the text as one line of at most some hundred characters that any terminal takes."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
