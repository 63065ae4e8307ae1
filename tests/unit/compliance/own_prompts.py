"""Prompts of twenty agents, written for these tests: sentences with a trace that breaks and one that keeps each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from stream_guard_compliance import Extraction, extract
from stream_guard_compliance.compiling.context import is_note
from stream_guard_compliance.trace import read_trace

from stream_guard import Policy, build_registry, evaluate, parse_policy
from tests.vectors.behaviour import read_proposals
from tests.vectors.steps import events

FOLDER = Path(__file__).parents[2] / "golden" / "compliance_behaviour"
# Eight more, in other styles, written before anybody looked at what the reader does with them: it found 17 of the 50
# breaking traces of the one half and 20 of the other. It was mended with the first half; then it found 23 of the other.
STRANGERS = FOLDER.parent / "compliance_strangers"
PROPOSALS = FOLDER.parent / "compliance_proposals.jsonl"  # written by hand, as a model would give them
# Held away while the reader was written: what is found of these is what may be hoped for on any prompt.
HELD = frozenset(("bank_teller", "clinic_voice", "faq_bot", "telecom_support", "terminal_coder"))
# Written later, and measured before anything was mended for them: 19 of 46 breaking traces were found then.
LATER = frozenset(("claims_adjuster", "dispatch_desk", "hiring_screener", "math_tutor", "smart_home"))


@dataclass(slots=True)
class Found:
    """What came of the traces."""

    breaks: Counter[bool] = field(default_factory=Counter)
    keeps: int = 0
    accused: list[str] = field(default_factory=list)  # sentences whose keeping trace, or whose trap, was reported
    missed: list[str] = field(default_factory=list)
    traps: int = 0

    @property
    def recall(self) -> float:
        """Of the breaking traces, the share that was reported for its sentence."""
        return self.breaks[True] / max(1, self.breaks.total())


def cases(file: Path = FOLDER / "cases.jsonl") -> list[dict[str, Any]]:
    """Return every sentence of a file with its traces."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def measure(rows: Sequence[dict[str, Any]], *, proposed: bool = False) -> Found:
    """Hold the traces against the prompts, with what was proposed for them where that is asked for."""
    found = Found()
    for row in rows:
        if reported(row["prompt"], row["keeps"], proposed=proposed):
            found.accused.append(f"{row['prompt']}: {row['sentence']}")
        if row.get("trap"):
            found.traps += 1
            continue
        found.keeps += 1
        wanted = [row["sentence"], *row.get("also", ())]
        places = reported(row["prompt"], row["breaks"], proposed=proposed)
        hit = any(stands(row["prompt"], place, piece) for place in places for piece in wanted)
        found.breaks[hit] += 1
        found.missed += [] if hit else [f"{row['prompt']}: {row['sentence']}"]
    return found


def stands(name: str, place: tuple[int, int], piece: str) -> bool:
    """Whether a piece of a prompt overlaps the sentence at a place."""
    text, _, _ = read_prompt(name)
    start = text.find(piece)
    shared = min(place[1], start + len(piece)) - max(place[0], start)
    return start >= 0 and shared >= 0.5 * min(place[1] - place[0], len(piece))


@lru_cache(maxsize=64)
def read_prompt(name: str, *, proposed: bool = False) -> tuple[str, Extraction, Policy | None]:
    """Return a prompt, what it says, and its policy."""
    text, tools = text_and_tools(name)
    found = extract(text, tools, proposals=read_proposals(PROPOSALS).get(name, ()) if proposed else ())
    written = found.policy()
    policy = parse_policy(json.dumps(written), registry(), file=name) if written["rules"] else None
    return text, found, policy


def text_and_tools(name: str) -> tuple[str, list[str]]:
    """Return a prompt and the tools of its agent; the name of a stranger's has its ending."""
    file = STRANGERS / name if name.endswith(".txt") else FOLDER / f"{name}.md"
    tools = json.loads((file.parent / f"{file.stem}.tools.json").read_text(encoding="utf-8"))
    return file.read_text(encoding="utf-8"), tools


@lru_cache(maxsize=1)
def registry() -> Any:
    """What is installed."""
    return build_registry()


def reported(name: str, steps: Sequence[str], *, proposed: bool = False) -> list[tuple[int, int]]:
    """Return where the sentences stand that a trace is reported for."""
    _, found, policy = read_prompt(name, proposed=proposed)
    if policy is None:
        return []
    broken = {finding.rule_id for finding in evaluate(read_trace(list(events(steps))).events, policy)}
    return [
        (rule.rule.offset, rule.end)
        for rule in found.rules
        for rule_id, form in zip(rule.ids, rule.compiled.rules, strict=True)
        if rule_id in broken and not is_note(form)
    ]
