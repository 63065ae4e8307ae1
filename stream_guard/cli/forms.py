"""Words that options take: how findings are printed, which severity fails, how fast and by how many it goes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import typer


class FindingFormat(StrEnum):
    """How findings are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class ReportedFormat(StrEnum):
    """How a check is printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    HTML = "html"

    @property
    def extra(self) -> str:
        """The module of an optional dependency that it needs, or nothing."""
        needed = {
            ReportedFormat.SARIF: "sarif_pydantic",
            ReportedFormat.JUNIT: "junitparser",
            ReportedFormat.HTML: "jinja2",
        }
        return needed.get(self, "")


class LeastSeverity(StrEnum):
    """The severity from which on alerts are listed."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class FailOnSeverity(StrEnum):
    """The severity from which on findings fail a check."""

    NONE = "none"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class ProblemFormat(StrEnum):
    """How problems are printed."""

    TABLE = "table"
    JSON = "json"
    GITHUB = "github"


class Pace(StrEnum):
    """How quickly events follow each other."""

    FULL = "full"
    ORIGINAL = "original"


_SHARED: Final = "Share the sessions among this many processes; auto: as many as there are cores."
Jobs: TypeAlias = Annotated[str, typer.Option("--jobs", "-j", help=_SHARED)]
ReplayJobs: TypeAlias = Annotated[str, typer.Option("--jobs", "-j", "--processes", help=_SHARED)]
