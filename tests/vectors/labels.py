"""Labelled sentences of real prompts: each is read in its prompt and compared with the answers that can be defended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from stream_guard_compliance import Extraction, extract

from tests.vectors.case import WrongAnswerError

NO_RULE = frozenset(("none", "permission"))
OPEN = frozenset(("ambiguous", "conditional", "unparsed"))


@dataclass(frozen=True, slots=True)
class Placed:
    """One reading of a prompt and where it stands."""

    start: int
    end: int
    kind: str
    items: tuple[str, ...]
    concrete: bool
    whole: bool  # a limit that is counted over the whole session


@dataclass(slots=True)
class Scores:
    """What came of the labels: how many are right, and which sorts were taken for which."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    wrong_concrete: list[str] = field(default_factory=list)
    harmful: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)

    def lines(self) -> Iterable[str]:
        """Yield the totals and the confusion matrix, as they are printed."""
        total = self.right + len(self.wrong)
        yield f"labels: {total}, right: {self.right} ({self.right / max(total, 1):.1%})"
        for name in ("wrong_concrete", "harmful", "dropped"):
            cases = getattr(self, name)
            share = len(cases) / max(total, 1)
            yield f"{name.replace('_', ' ')}: {len(cases)} ({share:.1%}) {' '.join(cases)}".rstrip()
        yield "wanted (first of the right answers) -> read:"
        for (wanted, got), count in sorted(self.confusion.items()):
            yield f"  {wanted} -> {got}: {count}"


def is_label(case: dict[str, Any]) -> bool:
    """Whether a case is a sentence that needs its prompt."""
    return "sentence" in case and "prompt" in case


@lru_cache(maxsize=64)
def read_prompt_file(folder: Path, name: str) -> tuple[str, tuple[Placed, ...]]:
    """Return a prompt and its readings, made with the tools that its agent declares."""
    text = (folder / f"{name}.txt").read_bytes().decode("utf-8")
    catalogue = folder / f"{name}.tools.json"
    tools = json.loads(catalogue.read_text(encoding="utf-8")) if catalogue.exists() else ()
    return text, tuple(placed(extract(text, tools), len(text)))


def placed(found: Extraction, length: int) -> list[Placed]:
    """Return every sentence of a prompt with its place; a sentence ends where the next begins."""
    starts = sorted(
        {one.rule.offset for one in found.rules}
        | {one.offset for one in found.unparsed}
        | {one.sentence.offset for one in found.other}
    )
    ends = dict(zip(starts, [*starts[1:], length], strict=True))
    rows = [
        Placed(
            rule.rule.offset,
            ends[rule.rule.offset],
            rule.rule.kind,
            rule.rule.items,
            bool(rule.compiled.rules),
            any(form["kind"] == "max_calls" and form.get("scope") != "session" for form in rule.compiled.rules),
        )
        for rule in found.rules
    ]
    rows += [
        Placed(one.offset, ends[one.offset], "unparsed", (), concrete=False, whole=False) for one in found.unparsed
    ]
    for one in found.other:
        start = one.sentence.offset
        rows.append(Placed(start, ends[start], one.reading.kind, one.reading.items, concrete=False, whole=False))
    return sorted(rows, key=lambda row: row.start)


def run_label(case: dict[str, Any], folder: Path, scores: Scores) -> None:
    """Compare one labelled sentence; raises WrongAnswerError with what was read instead."""
    name, wanted = case["id"], [case["kind"]] if isinstance(case["kind"], str) else case["kind"]
    text, readings = read_prompt_file(folder, case["prompt"])
    start = text.find(case["sentence"])
    end = start + len(case["sentence"])
    here = [one for one in readings if _overlaps(one, start, end)] if start >= 0 else []
    if not here:
        scores.dropped.append(name)
        scores.wrong.append(name)
        raise WrongAnswerError("no reading stands there: the sentence was dropped")
    got = next((one.kind for one in here if one.kind not in NO_RULE), here[0].kind)
    harmful = [one for one in here if one.concrete and any(_is_harm(harm, one) for harm in case["never"])]
    invented = [one for one in here if one.concrete and one.kind not in wanted]
    silent = got in NO_RULE and not NO_RULE & set(wanted)
    allowed = {*wanted, *(NO_RULE if NO_RULE & set(wanted) else ())}
    for problem, cases in ((harmful, scores.harmful), (invented, scores.wrong_concrete), (silent, scores.dropped)):
        if problem:
            cases.append(name)
    scores.confusion[wanted[0], got] += 1
    if got not in allowed or harmful or invented:
        scores.wrong.append(name)
        shown = [(one.kind, one.items, "concrete" if one.concrete else "open") for one in here]
        raise WrongAnswerError(f"read as {shown}, right is {wanted}, harmful is {case['never']}: {case['sentence']}")
    scores.right += 1


def _overlaps(one: Placed, start: int, end: int) -> bool:
    shared = min(one.end, end) - max(one.start, start)
    return shared >= 0.5 * min(end - start, one.end - one.start) and shared > 0


def _is_harm(harm: str, one: Placed) -> bool:
    """Whether a reading is the harmful one: ``kind``, ``kind:item``, ``order:first>second``, ``...@whole``."""
    described, _, whole = harm.partition("@")
    kind, _, item = described.partition(":")
    if kind != one.kind or (whole and not one.whole):
        return False
    first, arrow, second = item.partition(">")
    if arrow:
        return first in one.items and second in one.items and one.items.index(first) < one.items.index(second)
    return not item or any(held == item or held.split("<=")[0] == item for held in one.items)
