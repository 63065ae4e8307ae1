"""Whether the cluster answers: the clients would try for ever and never say that they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from stream_guard.errors import SourceError

EVERY: Final = 2.0  # seconds between two questions


class BrokerHealth:
    """Asks the cluster now and then who is in it, and knows since when nobody has answered."""

    def __init__(self, client: Any, *, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._patience = patience
        self._clock = clock
        self._answered = self._asked = clock()
        self._question: asyncio.Future[bool] | None = None

    def look(self) -> None:
        """Take in the answer, if there is one, and ask again; SourceError when patience has run out."""
        now = self._clock()
        question = self._question
        if question is not None and question.done():
            if not question.cancelled() and question.exception() is None and question.result():
                self._answered = now
            self._question = None
        if self._question is None and now - self._asked >= EVERY:
            self._asked = now
            self._question = asyncio.ensure_future(self._client.force_metadata_update())
        if self._silent() > self._patience:
            raise SourceError(
                f"no broker has answered for {self._silent():.0f} s (kafka.patience is {self._patience:.0f} s); "
                "look at the brokers and their disks; nothing is lost: start the worker again when they are back"
            )

    def troubles(self) -> list[str]:
        """Return what to say when nobody answers; nothing when somebody does."""
        silent = self._silent()
        return [f"no broker has answered for {silent:.0f} s"] if silent > 3 * EVERY else []

    def _silent(self) -> float:
        return self._clock() - self._answered
