"""The report as one file for a browser: no script, no network, nothing an agent wrote is anything but text."""

from __future__ import annotations

from stream_guard.reports import load_template, visible
from stream_guard_diff.comparison import Diff
from stream_guard_diff.gate import FailOn, trips
from stream_guard_diff.report_summary import change, drift_sentence, sureness, verdict
from stream_guard_diff.report_timeline import pages_of


def to_html(diff: Diff, fail_on: FailOn, *, baseline: str = "baseline", candidate: str = "candidate") -> str:
    """Return the page; ``baseline`` and ``candidate`` are how the sides are called in it."""
    report = diff.report
    pages = pages_of(diff.timelines)
    template = load_template("stream_guard_diff", "diff.html.j2", change=change, sureness=sureness)
    return template.render(
        report=report,
        pages=pages,
        hidden=sum(bool(one.divergences) for one in diff.timelines) - len(pages),
        alike=sum(not one.divergences for one in diff.timelines),
        tripped=trips(report, fail_on),
        gated=fail_on is not FailOn.NONE,
        verdict=verdict(report, fail_on),
        drift=drift_sentence(report),
        baseline=visible(baseline),
        candidate=visible(candidate),
    )
