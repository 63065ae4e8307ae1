"""How far numbers go that a policy gives and a state keeps."""

from __future__ import annotations

from typing import Final

MOST: Final = 2**53
"""Counts and sums stop here, so that a source of absurd numbers cannot break a stored state."""
