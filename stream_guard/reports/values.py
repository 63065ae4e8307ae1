"""The plain values that the writers take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from stream_guard.errors import Place

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
