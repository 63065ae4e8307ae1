"""The scene that this process is playing, where wrapped tools and proxies find it.

One for the whole process, because a tool that was wrapped when it was imported has nobody who could hand it one; and
not one for each thread, because agents call tools from threads of their own. A process plays one scene at a time.
"""

from __future__ import annotations

from threading import Thread, current_thread
from typing import Final
from weakref import WeakSet

from stream_guard_contract.scene import Scene


class Stage:
    """What is played now: nothing, which means that wrapped tools and proxies only pass on, or one scene."""

    def __init__(self) -> None:
        self.scene: Scene | None = None
        self.left_behind: WeakSet[Thread] = WeakSet()
        self.is_model_wrapped = False
        self.is_model_proxied = False

    @property
    def current(self) -> Scene | None:
        """The scene that a call from this thread belongs to: none, for an agent that took too long and was left."""
        if self.left_behind and current_thread() in self.left_behind:
            return None
        return self.scene

    @property
    def has_model(self) -> bool:
        """Whether calls of a model pass by here."""
        return self.is_model_wrapped or self.is_model_proxied


STAGE: Final = Stage()
