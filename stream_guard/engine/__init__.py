"""The engine folds one event into the state of one key and returns findings. It is pure and reads no clock."""

from stream_guard.engine.fold import Engine
from stream_guard.engine.key_state import Address, KeyState

__all__ = ["Address", "Engine", "KeyState"]
