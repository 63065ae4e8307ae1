"""W3C trace context: which span of which trace something belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

LABEL: Final = "traceparent"  # of an event
# Version ff is none, and neither are ids of zeros.
_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.{0,100})?"
)
_WRITTEN: Final = 55  # characters of version 00, which every later one begins with


class SpanPlace(NamedTuple):
    """A trace and a span of it, in hexadecimal."""

    trace_id: str
    span_id: str


def read_traceparent(text: object) -> SpanPlace | None:
    """Return the place that a header ``traceparent`` names, or None."""
    found = _PARENT.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else SpanPlace(found[1], found[2])


def span_place(labels: Mapping[str, str]) -> SpanPlace | None:
    """Return the place that the labels of an event name, or None."""
    return read_traceparent(labels.get(LABEL, ""))


def trace_labels(text: object) -> dict[str, str]:
    """Return the label for a header ``traceparent``; none where it is no such header."""
    return {LABEL: str(text)[:_WRITTEN]} if read_traceparent(text) is not None else {}
