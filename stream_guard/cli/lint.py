"""``lint``: everything that is wrong with policy files, and what recordings say about their rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_guard.cli.forms import ProblemFormat
from stream_guard.commands import USAGE, SettingsFile, SourceFormat


def lint(
    files: Annotated[list[Path], typer.Argument(help="Policy files, or folders of them.", show_default=False)],
    form: Annotated[ProblemFormat, typer.Option("--format", help="How to print the problems.")] = "table",
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against", help="Recordings to try the rules on: which are dead, and what breaks each; may be repeated."
        ),
    ] = None,
    source_format: SourceFormat = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """List everything that is wrong with policy files; exit 2 when something is."""
    from stream_guard.cli.linting import lines_of, lint_files
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    with Assembly(load_settings(settings_file)) as assembly:
        linted = lint_files(files, against or (), source_format, assembly)
    for line in lines_of(linted, form):
        typer.echo(line)
    errors = sum(not problem.warning for problem in linted.problems)
    warnings = len(linted.problems) - errors
    typer.echo(f"policies: {linted.checked}, errors: {errors}, warnings: {warnings}", err=True)
    if errors:
        raise typer.Exit(USAGE)
