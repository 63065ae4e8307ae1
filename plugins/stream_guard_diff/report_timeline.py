"""Two sessions side by side, as rows that a page can show: what is alike is folded, where they part stands out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard import RecordedTurn, redact
from stream_guard.reports import visible
from stream_guard_diff.comparison import Timeline
from stream_guard_diff.divergence import Divergence

MAX_ROWS: Final = 200  # of one session that are shown; what is left out is counted
MAX_SESSIONS: Final = 40
AROUND: Final = 1  # turns that are alike and are shown on either side of a divergence
_TEXT: Final = 400
_CALLS: Final = 8


@dataclass(frozen=True, slots=True)
class Card:
    """One turn as it is shown."""

    index: int
    text: str
    calls: tuple[tuple[str, str], ...]  # tool and arguments
    more_calls: int
    stop: str


@dataclass(frozen=True, slots=True)
class Row:
    """A step: both cards, or one; with what is to be said about it."""

    baseline: Card | None
    candidate: Card | None
    divergence: Divergence | None = None
    first: bool = False
    folded: int = 0  # instead of cards: this many steps that are alike


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one session."""

    name: str
    rows: tuple[Row, ...]
    divergences: int
    left_out: int


def pages_of(timelines: Sequence[Timeline]) -> list[Page]:
    """Return the sessions that part, those that part most first."""
    parting = sorted((one for one in timelines if one.divergences), key=lambda one: -len(one.divergences))
    return [_page(one) for one in parting[:MAX_SESSIONS]]


def _page(one: Timeline) -> Page:
    rows = list(_rows(one))
    shown = rows[:MAX_ROWS]
    old, new = one.baseline.session_id, one.candidate.session_id
    name = old if old == new else f"{old or 'nothing'} → {new or 'nothing'}"
    return Page(visible(name), tuple(shown), len(one.divergences), len(rows) - len(shown))


def _rows(one: Timeline) -> Iterator[Row]:
    said = {(found.baseline_turn, found.candidate_turn): found for found in one.divergences}
    found = [said.get((step.old, step.new)) for step in one.steps]
    near = {
        place + offset
        for place, divergence in enumerate(found)
        if divergence is not None
        for offset in range(-AROUND, AROUND + 1)
    }
    alike = 0
    first = True
    for place, (step, divergence) in enumerate(zip(one.steps, found, strict=True)):
        if place not in near:
            alike += 1
            continue
        if alike:
            yield Row(None, None, folded=alike)
            alike = 0
        old = None if step.is_extra else _card(one.baseline.turns[step.old])
        new = _card(one.candidate.turns[step.new]) if step.is_pair or step.is_extra else None
        yield Row(old, new, divergence, first=first and divergence is not None)
        first = first and divergence is None
    if alike:
        yield Row(None, None, folded=alike)


def _card(turn: RecordedTurn) -> Card:
    calls = tuple((visible(call.tool[:80]), _arguments(call.args)) for call in turn.calls[:_CALLS])
    # Cut before anything else: a megabyte of text would be searched for secrets in vain.
    shown = visible(str(redact(turn.text[: _TEXT * 4])))
    cut = shown if len(shown) <= _TEXT else f"{shown[:_TEXT]}…"
    return Card(turn.index, cut, calls, max(0, len(turn.calls) - _CALLS), visible(turn.stop_reason[:40]))


def _arguments(args: object) -> str:
    shown = visible(json.dumps(redact(args), ensure_ascii=False))
    return shown if len(shown) <= 200 else f"{shown[:199]}…"
