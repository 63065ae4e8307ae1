"""Reports that go to files, beside what is printed: FORM=FILE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_guard.cli.exits import INFRASTRUCTURE
from stream_guard.errors import SettingsError
from stream_guard.reports import ReportForm

Target = tuple[ReportForm, Path]
Reports = Annotated[
    list[str] | None, typer.Option("--report", help="Write a report to a file too: FORM=FILE; may be repeated.")
]


def report_target(text: str) -> Target:
    """Return the form and the file of ``FORM=FILE``; raises SettingsError where it is not that."""
    form, separator, file = text.partition("=")
    if not separator or not file or form not in list(ReportForm):
        raise SettingsError(f"--report {text}: write FORM=FILE, where FORM is one of {', '.join(ReportForm)}")
    return ReportForm(form), Path(file)


def write_report(file: Path, text: str) -> None:
    """Write a report, or leave with the exit code for what is outside and would not work."""
    try:
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        typer.echo(f"stream-guard: --report {file}: {error.strerror}", err=True)
        raise typer.Exit(INFRASTRUCTURE) from None
