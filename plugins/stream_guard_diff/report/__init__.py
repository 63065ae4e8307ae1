"""A diff, in the forms that people and machines read."""

from __future__ import annotations

from stream_guard import Policy
from stream_guard.reports import ReportForm
from stream_guard_diff.comparison import Diff
from stream_guard_diff.gate import FailOn
from stream_guard_diff.report.machines import to_github, to_json, to_junit, to_sarif
from stream_guard_diff.report.page import to_html
from stream_guard_diff.report.readable import to_markdown, to_table

__all__ = ["write_diff"]


def write_diff(
    diff: Diff,
    form: ReportForm,
    fail_on: FailOn,
    *,
    policy: Policy | None = None,
    baseline: str = "baseline",
    candidate: str = "candidate",
) -> str:
    """Return the diff in the given form; ``policy`` gives rules their place in SARIF and annotations."""
    report = diff.report
    forms = {
        ReportForm.TABLE: lambda: to_table(report, fail_on),
        ReportForm.JSON: lambda: to_json(report, fail_on),
        ReportForm.MARKDOWN: lambda: to_markdown(report, fail_on),
        ReportForm.JUNIT: lambda: to_junit(report, fail_on),
        ReportForm.SARIF: lambda: to_sarif(report, policy),
        ReportForm.GITHUB: lambda: to_github(report, policy),
        ReportForm.HTML: lambda: to_html(diff, fail_on, baseline=baseline, candidate=candidate),
    }
    return forms[form]()
