"""Sentences of real prompts with a trace that breaks each and one that keeps it: what is reported for which one."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from stream_guard_compliance import ComplianceResult, check_compliance, extract
from stream_guard_compliance.proposed_frames import Proposal

from stream_guard.settings import Settings
from tests.vectors.case import WrongAnswerError
from tests.vectors.compliance import registry
from tests.vectors.steps import events

Span = tuple[int, int]


@dataclass(slots=True)
class BehaviourScores:
    """What came of the traces: reports that had to come, and reports that must not."""

    found: Counter[str] = field(default_factory=Counter)  # by kind
    missed: Counter[str] = field(default_factory=Counter)
    prompts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    kept: int = 0  # traces that keep their sentence
    accused: list[str] = field(default_factory=list)  # of these, where something was reported
    traps: int = 0
    trapped: list[str] = field(default_factory=list)
    judged: int = 0  # sentences for a judge
    asserted: list[str] = field(default_factory=list)  # of these, where something was reported

    @property
    def is_used(self) -> bool:
        """Whether any case was of this sort."""
        return bool(self.kept or self.traps or self.judged)

    def lines(self) -> Iterable[str]:
        """Yield the totals, by kind and by prompt, as they are printed."""
        total = self.found.total() + self.missed.total()
        yield f"breaking traces reported for their sentence: {_share(self.found.total(), total)}"
        for kind in sorted({*self.found, *self.missed}):
            yield f"  {kind}: {_share(self.found[kind], self.found[kind] + self.missed[kind])}"
        for prompt in sorted({name for name, _ in self.prompts}):
            right, wrong = self.prompts[prompt, True], self.prompts[prompt, False]
            yield f"  {prompt}: {_share(right, right + wrong)}"
        yield f"keeping traces reported: {_share(len(self.accused), self.kept)} {' '.join(self.accused)}".rstrip()
        yield f"traps reported: {_share(len(self.trapped), self.traps)} {' '.join(self.trapped)}".rstrip()
        yield f"asserted where only a judge can tell: {_share(len(self.asserted), self.judged)}"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / max(whole, 1):.1%})"


def is_behaviour(case: dict[str, Any]) -> bool:
    """Whether a case is a sentence with traces."""
    return "keeps" in case and "prompt" in case


def run_behaviour(
    case: dict[str, Any], folder: Path, scores: BehaviourScores, proposals: Sequence[Proposal] = ()
) -> None:
    """Run both traces of a case; raises WrongAnswerError with what was not reported, or should not have been."""
    prompt, tools = read_prompt_file(folder, case["prompt"].removesuffix(".txt"))
    spans = [span for piece in (case["sentence"], *(case.get("also") or ())) for span in spans_of(prompt, piece)]
    if not spans:
        raise WrongAnswerError("the sentence does not stand in its prompt")
    kept = _check(prompt, case["keeps"], tools, proposals)
    broken = _check(prompt, case["breaks"], tools, proposals) if case["breaks"] else None
    problems = [f"the keeping trace is reported: {_shown(kept)}"] if kept.violations else []
    if case.get("trap"):
        scores.traps += 1
        scores.trapped += [case["id"]] * bool(problems)
    elif case.get("needs") == "judge":
        scores.judged += 1
        if problems or (broken is not None and _reported(broken, prompt, spans)):
            scores.asserted.append(case["id"])
            problems.append("something is asserted that only a judge can tell")
    else:
        scores.kept += 1
        scores.accused += [case["id"]] * bool(problems)
        right = broken is not None and _reported(broken, prompt, spans)
        (scores.found if right else scores.missed)[case["kind"]] += 1
        scores.prompts[case["prompt"], right] += 1
        if not right:
            problems.append(f"the breaking trace is not reported for it; reported is {_shown(broken)}")
    if problems:
        raise WrongAnswerError("; ".join(problems))


def _check(
    prompt: str, trace: Sequence[dict[str, Any] | str], tools: Sequence[Any], proposals: Sequence[Proposal]
) -> ComplianceResult:
    """Hold a trace, as events or as steps, against a prompt."""
    told = [step for step in trace if isinstance(step, str)]
    given = [*events(told), *(event for event in trace if not isinstance(event, str))]
    return asyncio.run(
        check_compliance(prompt, given, tools=tools, proposals=proposals, registry=registry(), settings=Settings())
    )


def _reported(result: ComplianceResult, prompt: str, spans: Sequence[Span]) -> bool:
    """Whether a violation is of a rule that a sentence at one of these places states."""
    starts = sorted({rule.offset for rule in result.extracted_rules} | {left.offset for left in result.unparsed})
    ends = dict(zip(starts, [*starts[1:], len(prompt)], strict=True))
    broken = {violation.rule_id for violation in result.violations}
    places = [
        (rule.offset, min(rule.end or ends[rule.offset], ends[rule.offset]))
        for rule in result.extracted_rules
        if rule.rule_id in broken
    ]
    return any(_overlap(place, span) for place in places for span in spans)


def _overlap(one: Span, other: Span) -> bool:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return shared > 0 and shared >= 0.5 * min(one[1] - one[0], other[1] - other[0])


def _shown(result: ComplianceResult | None) -> list[str]:
    described = {rule.rule_id: rule.description for rule in result.extracted_rules} if result else {}
    return [f"{one.rule_id} ({described[one.rule_id][:80]})" for one in (result.violations if result else ())]


def spans_of(prompt: str, piece: str) -> list[Span]:
    """Return where a piece stands in the prompt, every time."""
    found: list[Span] = []
    at = prompt.find(piece)
    while at >= 0:
        found.append((at, at + len(piece)))
        at = prompt.find(piece, at + 1)
    return found


@lru_cache(maxsize=64)
def read_prompt_file(folder: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """Return a prompt, and the tools that its agent declares."""
    catalogue = folder / f"{name}.tools.json"
    tools = json.loads(catalogue.read_text(encoding="utf-8")) if catalogue.exists() else ()
    return (folder / f"{name}.txt").read_bytes().decode("utf-8"), tuple(tools)


def read_proposals(file: Path) -> dict[str, list[Proposal]]:
    """Return what was proposed for each prompt; ``wrong`` marks those that must be refused."""
    found: dict[str, list[Proposal]] = {}
    for name, proposal, _ in proposed_in(file):
        found.setdefault(name, []).append(proposal)
    return found


def proposed_in(file: Path) -> Iterator[tuple[str, Proposal, str]]:
    """Yield the prompt and the proposal of each line, and why it is wrong, where it is."""
    for line in filter(str.strip, file.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        yield row["prompt"], msgspec.convert(row["proposal"], type=Proposal), row.get("wrong", "")


def is_accepted(proposal: Proposal, prompt: str, tools: Sequence[str]) -> bool:
    """Whether a proposal alone becomes a rule of its prompt."""
    found = extract(prompt, tools, proposals=[proposal])
    return any(rule.read.reading.proposed and rule.compiled.rules for rule in found.rules)


def proposal_lines(file: Path, folder: Path) -> Iterator[str]:
    """Yield how many of the right and of the wrong proposals are accepted, each by itself."""
    accepted: Counter[tuple[bool, bool]] = Counter()
    for name, proposal, wrong in proposed_in(file):
        if not (folder / name).is_file():  # of a prompt that is elsewhere
            continue
        prompt, tools = read_prompt_file(folder, name.removesuffix(".txt"))
        accepted[bool(wrong), is_accepted(proposal, prompt, tools)] += 1
    for is_wrong, sort in ((False, "right"), (True, "wrong")):
        taken = accepted[is_wrong, True]
        yield f"{sort} proposals accepted: {_share(taken, taken + accepted[is_wrong, False])}"
