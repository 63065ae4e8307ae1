"""Reports: what an analysis found, in the forms that people and machines read."""

from __future__ import annotations

from enum import StrEnum


class ReportForm(StrEnum):
    """The forms a report can be written in; the command line names them without loading what writes them."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    HTML = "html"
