"""The scene that this process is playing, where wrapped tools and proxies find it.

One for the whole process, because a tool that was wrapped when it was imported has nobody who could hand it one; and
not one for each thread, because agents call tools from threads of their own. A process plays one scene at a time.
"""

from __future__ import annotations

from typing import Final

from stream_guard.contract.scene import Scene


class Stage:
    """What is played now: nothing, which means that wrapped tools and proxies only pass on, or one scene."""

    def __init__(self) -> None:
        self.scene: Scene | None = None
        self.is_model_wrapped = False
        self.is_model_proxied = False

    @property
    def has_model(self) -> bool:
        """Whether calls of a model pass by here."""
        return self.is_model_wrapped or self.is_model_proxied


STAGE: Final = Stage()
