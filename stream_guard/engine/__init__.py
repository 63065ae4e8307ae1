"""The fold: one event and one cell of state in, findings out. Pure, synchronous, no clock of its own."""

from stream_guard.engine.cell import Address, Cell
from stream_guard.engine.fold import Engine

__all__ = ["Address", "Cell", "Engine"]
