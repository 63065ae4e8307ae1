"""Sessions side by side: the turns around each divergence as cards, with the words that differ marked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

from stream_guard import RecordedTurn, redact
from stream_guard.reports import visible
from stream_guard_diff.comparison import Timeline
from stream_guard_diff.divergence import Divergence

MAX_ROWS: Final = 200  # of one session that are shown; what is left out is counted
AROUND: Final = 1  # turns that are equal and are shown on either side of a divergence
_TEXT: Final = 400
_CALLS: Final = 8

TextPart = tuple[Literal["", "del", "ins"], str]


@dataclass(frozen=True, slots=True)
class TurnCard:
    """One turn as it is shown."""

    index: int
    parts: tuple[TextPart, ...]  # of its text; those that the other side does not have are marked
    calls: tuple[tuple[str, str], ...]  # tool and arguments
    more_calls: int
    stop: str


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A step: one card or both, with the divergence where there is one."""

    baseline: TurnCard | None
    candidate: TurnCard | None
    divergence: Divergence | None = None
    first: bool = False
    folded: int = 0  # instead of cards: this many steps that are equal


@dataclass(frozen=True, slots=True)
class SessionPage:
    """The rows of one session, and what it is called."""

    anchor: str
    name: str
    baseline: str
    candidate: str
    task: str
    rows: tuple[TimelineRow, ...]
    divergences: int
    left_out: int


def session_page(timeline: Timeline, anchor: str, *, rows: int = MAX_ROWS) -> SessionPage:
    """Return a session with up to so many of its rows."""
    made = list(_rows(timeline)) if timeline.divergences and rows > 0 else []
    shown = made[: min(rows, MAX_ROWS)]
    old, new = timeline.baseline.session_id, timeline.candidate.session_id
    name = old if old == new else f"{old or 'nothing'} → {new or 'nothing'}"
    return SessionPage(
        anchor,
        visible(name),
        old,
        new,
        visible(timeline.task),
        tuple(shown),
        len(timeline.divergences),
        len(made) - len(shown),
    )


def _rows(timeline: Timeline) -> Iterator[TimelineRow]:
    by_turns = {(found.baseline_turn, found.candidate_turn): found for found in timeline.divergences}
    divergences = [by_turns.get((step.old, step.new)) for step in timeline.steps]
    near = {
        place + offset
        for place, divergence in enumerate(divergences)
        if divergence is not None
        for offset in range(-AROUND, AROUND + 1)
    }
    equal = 0
    first = True
    for place, (step, divergence) in enumerate(zip(timeline.steps, divergences, strict=True)):
        if place not in near:
            equal += 1
            continue
        if equal:
            yield TimelineRow(None, None, folded=equal)
            equal = 0
        old = None if step.is_extra else timeline.baseline.turns[step.old]
        new = timeline.candidate.turns[step.new] if step.is_pair or step.is_extra else None
        yield TimelineRow(*_cards(old, new), divergence, first=first and divergence is not None)
        first = first and divergence is None
    if equal:
        yield TimelineRow(None, None, folded=equal)


def _cards(old: RecordedTurn | None, new: RecordedTurn | None) -> tuple[TurnCard | None, TurnCard | None]:
    texts = [_text(turn) if turn is not None else "" for turn in (old, new)]
    parts = _compare_words(texts[0], texts[1]) if old is not None and new is not None else _unmarked(texts)
    return (
        None if old is None else _card(old, parts[0]),
        None if new is None else _card(new, parts[1]),
    )


def _unmarked(texts: list[str]) -> tuple[tuple[TextPart, ...], tuple[TextPart, ...]]:
    first, second = ((("", text),) if text else () for text in texts)
    return first, second  # type: ignore[return-value]  # an empty string is one of the three


def _compare_words(old: str, new: str) -> tuple[tuple[TextPart, ...], tuple[TextPart, ...]]:
    """Return both texts in parts, with the words marked that only one has; texts that are little alike stay whole."""
    if old == new or not old or not new:
        return _unmarked([old, new])
    words = old.split(" "), new.split(" ")
    matcher = SequenceMatcher(None, *words, autojunk=False)
    if matcher.ratio() < 0.3:
        return _unmarked([old, new])
    sides: tuple[list[TextPart], list[TextPart]] = ([], [])
    for kind, start_old, end_old, start_new, end_new in matcher.get_opcodes():
        for side, part, mark in (
            (0, words[0][start_old:end_old], "del"),
            (1, words[1][start_new:end_new], "ins"),
        ):
            if part:
                sides[side].append(("" if kind == "equal" else mark, " ".join(part)))  # type: ignore[arg-type]  # as above
    return tuple(sides[0]), tuple(sides[1])


def _text(turn: RecordedTurn) -> str:
    # Cut first: searching a megabyte of text for secrets would be in vain.
    shown = visible(str(redact(turn.text[: _TEXT * 4])))
    return shown if len(shown) <= _TEXT else f"{shown[:_TEXT]}…"


def _card(turn: RecordedTurn, parts: tuple[TextPart, ...]) -> TurnCard:
    calls = tuple((visible(call.tool[:80]), _arguments(call.args)) for call in turn.calls[:_CALLS])
    return TurnCard(turn.index, parts, calls, max(0, len(turn.calls) - _CALLS), visible(turn.stop_reason[:40]))


def _arguments(args: object) -> str:
    shown = visible(json.dumps(redact(args), ensure_ascii=False))
    return shown if len(shown) <= 200 else f"{shown[:199]}…"
