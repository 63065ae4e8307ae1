"""The page for a browser: one file without script or network; sessions side by side, equal turns folded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard import RecordedTurn, redact
from stream_guard.reports import load_template, visible
from stream_guard_diff.comparison import Diff, Timeline
from stream_guard_diff.deciding import GateAnswer
from stream_guard_diff.divergence import Divergence
from stream_guard_diff.report.summary import change, drift_sentence, sureness

MAX_ROWS: Final = 200  # of one session that are shown; what is left out is counted
MAX_SESSIONS: Final = 40
AROUND: Final = 1  # turns that are equal and are shown on either side of a divergence
_TEXT: Final = 400
_CALLS: Final = 8


@dataclass(frozen=True, slots=True)
class TurnCard:
    """One turn as it is shown."""

    index: int
    text: str
    calls: tuple[tuple[str, str], ...]  # tool and arguments
    more_calls: int
    stop: str


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A step: one card or both, with the divergence where there is timeline."""

    baseline: TurnCard | None
    candidate: TurnCard | None
    divergence: Divergence | None = None
    first: bool = False
    folded: int = 0  # instead of cards: this many steps that are equal


@dataclass(frozen=True, slots=True)
class SessionPage:
    """The rows of one session."""

    name: str
    rows: tuple[TimelineRow, ...]
    divergences: int
    left_out: int


def to_html(diff: Diff, answer: GateAnswer, *, baseline: str = "baseline", candidate: str = "candidate") -> str:
    """Return the page; ``baseline`` and ``candidate`` are the names of the sides in it."""
    report = diff.report
    pages = session_pages(diff.timelines)
    template = load_template("stream_guard_diff.report", "diff.html.j2", change=change, sureness=sureness)
    return template.render(
        report=report,
        pages=pages,
        hidden=sum(bool(timeline.divergences) for timeline in diff.timelines) - len(pages),
        alike=sum(not timeline.divergences for timeline in diff.timelines),
        answer=answer,
        drift=drift_sentence(report),
        baseline=visible(baseline),
        candidate=visible(candidate),
    )


def session_pages(timelines: Sequence[Timeline]) -> list[SessionPage]:
    """Return the sessions that diverge, those with most divergences first."""
    diverging = [timeline for timeline in timelines if timeline.divergences]
    diverging.sort(key=lambda timeline: -len(timeline.divergences))
    return [_page(timeline) for timeline in diverging[:MAX_SESSIONS]]


def _page(timeline: Timeline) -> SessionPage:
    rows = list(_rows(timeline))
    shown = rows[:MAX_ROWS]
    old, new = timeline.baseline.session_id, timeline.candidate.session_id
    name = old if old == new else f"{old or 'nothing'} → {new or 'nothing'}"
    return SessionPage(visible(name), tuple(shown), len(timeline.divergences), len(rows) - len(shown))


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
        old = None if step.is_extra else _card(timeline.baseline.turns[step.old])
        new = _card(timeline.candidate.turns[step.new]) if step.is_pair or step.is_extra else None
        yield TimelineRow(old, new, divergence, first=first and divergence is not None)
        first = first and divergence is None
    if equal:
        yield TimelineRow(None, None, folded=equal)


def _card(turn: RecordedTurn) -> TurnCard:
    calls = tuple((visible(call.tool[:80]), _arguments(call.args)) for call in turn.calls[:_CALLS])
    # Cut first: searching a megabyte of text for secrets would be in vain.
    shown = visible(str(redact(turn.text[: _TEXT * 4])))
    cut = shown if len(shown) <= _TEXT else f"{shown[:_TEXT]}…"
    return TurnCard(turn.index, cut, calls, max(0, len(turn.calls) - _CALLS), visible(turn.stop_reason[:40]))


def _arguments(args: object) -> str:
    shown = visible(json.dumps(redact(args), ensure_ascii=False))
    return shown if len(shown) <= 200 else f"{shown[:199]}…"
