"""Options that several commands have, in the same words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class LogFormat(StrEnum):
    """How the log is written."""

    TEXT = "text"
    JSON = "json"


PolicyFile = Annotated[Path, typer.Option("--policy", "-p", help="The policy file.")]
SourceFormat = Annotated[str, typer.Option("--from-format", help="The format of the records.")]
Checkpoint = Annotated[Path | None, typer.Option(help="Remember progress and state here, and resume.")]
LogForm = Annotated[LogFormat | None, typer.Option(help="How the log is written, on standard error.")]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="A settings file.")]
AllowUnjudged = Annotated[
    bool, typer.Option("--allow-inconclusive", help="Exit 0 although not everything could be judged.")
]
