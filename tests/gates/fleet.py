"""Gates as processes, which are killed, frozen and started anew."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

from tests.integration.test_serve import Running, serving

_FROZEN: Final = 7.0  # seconds: two more than the database waits


class Fleet:
    """So many gates with one policy and one place for what they remember. Whoever asks may ask any of them."""

    def __init__(self, folder: Path, policy: str, store: str, gates: int, opened: ExitStack) -> None:
        self._folder = folder
        self._policy = policy
        self._store = store
        self._opened = opened
        self._started = 0
        self.servers = [self._start() for _ in range(gates)]
        self.kills = self.freezes = 0

    @property
    def urls(self) -> list[str]:
        """Where the gates are at this moment."""
        return [server.url for server in self.servers]

    def kill_one(self, random: Random) -> None:
        """Kill a gate, and start another in its place."""
        place = random.randrange(len(self.servers))
        self.servers[place].kill()
        self.kills += 1
        self.servers[place] = self._start()

    async def freeze_one(self, random: Random) -> None:
        """Let a gate stand still for so long that the database lets others go on with what it holds."""
        place = random.randrange(len(self.servers))
        self.freezes += 1
        self.freeze(place)
        try:
            await asyncio.sleep(_FROZEN)
        finally:
            self.thaw(place)

    def freeze(self, place: int) -> None:
        """Let a gate stand still."""
        self.servers[place].process.send_signal(signal.SIGSTOP)

    def thaw(self, place: int) -> None:
        """Let a frozen gate go on."""
        self.servers[place].process.send_signal(signal.SIGCONT)

    def _start(self) -> Running:
        self._started += 1
        folder = self._folder / str(self._started)
        folder.mkdir()
        options = (
            "--checkpoint",
            self._store,
            "--history",
            self._store.replace("sessions.db", "history.db"),
            "--no-page",
        )
        return self._opened.enter_context(serving(folder, *options, policy=self._policy))
