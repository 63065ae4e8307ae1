"""Lines of a known format that this version does not know: they are skipped, and counted."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from stream_guard import Record
from stream_guard_formats.reading import excerpt

_MOST_INPUTS: Final = 1000
_MOST_SORTS: Final = 50  # of one input; a producer may invent as many as it likes

_LONGEST: Final = 100

_logger = logging.getLogger(__name__)


class SkippedLines:
    """Counts skipped lines by input and by sort."""

    def __init__(self) -> None:
        self._inputs: dict[str, Counter[str]] = {}

    def add(self, record: Record, sort: str) -> None:
        """Count a line that was skipped."""
        if record.origin not in self._inputs and len(self._inputs) >= _MOST_INPUTS:
            del self._inputs[next(iter(self._inputs))]
        found, sort = self._inputs.setdefault(record.origin, Counter()), sort[:_LONGEST]
        found[sort if sort in found or len(found) < _MOST_SORTS else "others"] += 1

    @property
    def total(self) -> int:
        """How many lines were skipped since the last log."""
        return sum(found.total() for found in self._inputs.values())

    def log(self) -> None:
        """Log the counts of each input, and forget them."""
        for origin, found in self._inputs.items():
            sorts = ", ".join(f"{excerpt(sort)} {count}" for sort, count in found.most_common())
            _logger.warning(
                "%s: %d lines of a sort that is not known were skipped: %s", origin or "input", found.total(), sorts
            )
        self._inputs.clear()
