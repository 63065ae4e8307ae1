"""A diff, in the forms that people and machines read."""

from __future__ import annotations

from stream_guard import Policy
from stream_guard.reports import ReportForm
from stream_guard_diff.comparison import Diff
from stream_guard_diff.deciding import GateAnswer
from stream_guard_diff.report.machines import to_github, to_json, to_junit, to_sarif
from stream_guard_diff.report.markdown import to_markdown
from stream_guard_diff.report.page import to_html
from stream_guard_diff.report.table import to_table

__all__ = ["write_diff"]


def write_diff(
    diff: Diff,
    form: ReportForm,
    answer: GateAnswer,
    *,
    policy: Policy | None = None,
    baseline: str = "baseline",
    candidate: str = "candidate",
) -> str:
    """Return the diff in the given form; ``policy`` gives rules their place in SARIF and annotations."""
    report = diff.report
    forms = {
        ReportForm.TABLE: lambda: to_table(report, answer),
        ReportForm.JSON: lambda: to_json(report, answer),
        ReportForm.MARKDOWN: lambda: to_markdown(report, answer),
        ReportForm.JUNIT: lambda: to_junit(report, answer),
        ReportForm.SARIF: lambda: to_sarif(report, answer, policy),
        ReportForm.GITHUB: lambda: to_github(report, answer, policy),
        ReportForm.HTML: lambda: to_html(diff, answer, baseline=baseline, candidate=candidate),
    }
    return forms[form]()
