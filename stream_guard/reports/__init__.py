"""Reports: what a command found, in the forms that people and machines read. One writer for each form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from stream_guard.errors import Place

if TYPE_CHECKING:
    from stream_guard.reports.html import load_template
    from stream_guard.reports.junit import write_junit
    from stream_guard.reports.safe import annotation, code, excerpt, number, visible
    from stream_guard.reports.sarif import write_sarif

__all__ = [
    "JUnitCase",
    "JUnitSuite",
    "Level",
    "ReportForm",
    "SarifResult",
    "annotation",
    "code",
    "excerpt",
    "load_template",
    "number",
    "visible",
    "write_junit",
    "write_sarif",
]

# Loaded when asked for: some need the packages of the extra `analysis`, and every command names the forms.
_LAZY: Final = {
    "annotation": "stream_guard.reports.safe",
    "code": "stream_guard.reports.safe",
    "excerpt": "stream_guard.reports.safe",
    "load_template": "stream_guard.reports.html",
    "number": "stream_guard.reports.safe",
    "visible": "stream_guard.reports.safe",
    "write_junit": "stream_guard.reports.junit",
    "write_sarif": "stream_guard.reports.sarif",
}


Level: TypeAlias = Literal["none", "note", "warning", "error"]
"""How severe a result is, in the words of SARIF; GitHub calls a note a notice."""


class SarifResult(NamedTuple):
    """One result: the rule, what it found, and where the rule stands in a file."""

    rule_id: str
    level: Level
    message: str
    place: Place | None = None
    fingerprints: Mapping[str, str] | None = None  # what tells a reader that two runs found the same


class JUnitCase(NamedTuple):
    """One test case: passed, unless it has a failure or a reason why it was skipped."""

    name: str
    failure: str | None = None
    skipped: str | None = None


class JUnitSuite(NamedTuple):
    """Test cases under one name; ``classname`` is what readers group them by."""

    name: str
    classname: str
    cases: Sequence[JUnitCase]


class ReportForm(StrEnum):
    """The forms a report can be written in; the command line names them without loading what writes them."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    HTML = "html"


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
