"""The page for a browser: one file without script or network; what changed, drawn, and every session side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stream_guard.reports import load_template, visible
from stream_guard_diff.change_sentences import chance_words, change_words, interval_words, power_words
from stream_guard_diff.comparison import Diff, Timeline
from stream_guard_diff.deciding import GateAnswer
from stream_guard_diff.judging import ItemChange
from stream_guard_diff.report.cards import SessionPage, session_page
from stream_guard_diff.report.summary import change, drift_sentence, moved, pairing_sentence, sureness

MAX_ROWS: Final = 6_000  # of all sessions together; beyond, a session has its line and no turns
OPEN: Final = 3  # sessions whose turns are shown at once
_WIDTH: Final = 240  # of a drawn interval, in pixels


@dataclass(frozen=True, slots=True)
class DrawnChange:
    """The places of a change on a line from -1 to 1, in pixels."""

    low: float
    high: float
    effect: float
    zero: float = _WIDTH / 2
    width: float = _WIDTH


def to_html(diff: Diff, answer: GateAnswer, *, baseline: str = "baseline", candidate: str = "candidate") -> str:
    """Return the page; ``baseline`` and ``candidate`` are the names of the sides in it."""
    report = diff.report
    filters: dict[str, Callable[..., Any]] = {
        "change": change,
        "sureness": sureness,
        "words": change_words,
        "interval": interval_words,
        "chance": chance_words,
        "drawn": draw,
    }
    template = load_template("stream_guard_diff.report", "diff.html.j2", **filters)
    pages = session_pages(diff)
    return template.render(
        report=report,
        noise=report.noise,
        moved=moved(report.noise.axes),
        calm=[
            (axis, power_words(axis, report.noise.candidate)) for axis in report.noise.axes if axis.verdict == "noise"
        ],
        pages=pages,
        anchors={name: page.anchor for page in reversed(pages) for name in (page.baseline, page.candidate) if name},
        answer=answer,
        drift=drift_sentence(report),
        pairing=pairing_sentence(report),
        baseline=visible(baseline),
        candidate=visible(candidate),
    )


def draw(one: ItemChange) -> DrawnChange:
    """Return where a change and its interval lie; what is more than everything lies at the end."""

    def place(value: float) -> float:
        return round((max(-1.0, min(1.0, value)) + 1) / 2 * _WIDTH, 1)

    return DrawnChange(place(one.low), place(one.high), place(one.effect))


def session_pages(diff: Diff) -> list[SessionPage]:
    """Return every session: those that show a change best first, then those with most divergences."""
    shown: dict[str, int] = {}
    for axis in diff.report.noise.axes:
        if axis.blocks:
            for one in axis.changes:
                for session in one.sessions:
                    shown.setdefault(session, len(shown))
    for alert in diff.report.regressions:
        shown.setdefault(alert.session_id, len(shown))

    def weight(placed: tuple[int, Timeline]) -> tuple[int, int, int]:
        number, timeline = placed
        return shown.get(timeline.candidate.session_id, len(shown)), -len(timeline.divergences), number

    ordered: Sequence[tuple[int, Timeline]] = sorted(enumerate(diff.timelines), key=weight)
    left = MAX_ROWS
    pages: list[SessionPage] = []
    for number, timeline in ordered:
        page = session_page(timeline, f"s{number}", rows=left)
        left -= len(page.rows)
        pages.append(page)
    return pages
