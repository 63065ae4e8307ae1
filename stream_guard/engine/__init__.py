"""The fold: one event and the state of one key in, findings out. Pure, synchronous, no clock of its own."""

from stream_guard.engine.fold import Engine
from stream_guard.engine.key_state import Address, KeyState

__all__ = ["Address", "Engine", "KeyState"]
