"""A diff, in the forms that people and machines read."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from stream_guard import Policy
from stream_guard.reports import ReportForm
from stream_guard_diff import Diff, FailOn
from stream_guard_diff.report_html import to_html
from stream_guard_diff.report_machines import to_github, to_json, to_junit, to_sarif
from stream_guard_diff.report_markdown import to_markdown
from stream_guard_diff.report_table import print_table


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
    if form is ReportForm.TABLE:
        written = StringIO()
        print_table(report, fail_on, Console(file=written, width=120))
        return written.getvalue()
    forms = {
        ReportForm.JSON: lambda: to_json(report, fail_on),
        ReportForm.MARKDOWN: lambda: to_markdown(report, fail_on),
        ReportForm.JUNIT: lambda: to_junit(report, fail_on),
        ReportForm.SARIF: lambda: to_sarif(report, policy),
        ReportForm.GITHUB: lambda: to_github(report, policy),
        ReportForm.HTML: lambda: to_html(diff, fail_on, baseline=baseline, candidate=candidate),
    }
    return forms[form]()
