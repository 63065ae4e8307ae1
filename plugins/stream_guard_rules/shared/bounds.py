"""Bounds of the numbers and texts that policies give and states keep."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field

LARGEST_COUNT: Final = 2**53
"""Counts and sums stop here, so that a source of absurd numbers cannot break a stored state."""

# An empty text occurs in everything: a rule about it would always fire or never.
SoughtText: TypeAlias = Annotated[str, Field(min_length=1)]
"""A text to look for."""
