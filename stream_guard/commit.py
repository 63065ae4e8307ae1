"""The commit: what was judged becomes durable, in every mode in the same order.

1. Alerts are kept: a sink that waits for the disk has them, the outbox has them, or a broker has acknowledged them.
2. Dead letters are kept.
3. States and progress are written in one step.
4. Alerts are told, where others are to hear of them only now.

Killed between any two steps, the next start repeats what came after step 3, under the same alert ids, and loses none.
A gate judges inside step 3: its alerts are rows in the same write as the states, step 4 tells them, and step 1 of the
next commit tells those that a failure or a kill has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.ports import Record

UnreadableRecord: TypeAlias = tuple[Record, str]
"""A record that cannot be decoded, and the reason."""

Judged = TypeVar("Judged")
Written = TypeVar("Written")
Told = TypeVar("Told")


class HeldLetters:
    """Holds the dead letters of what is not committed yet."""

    def __init__(self) -> None:
        self.held: list[UnreadableRecord] = []

    def add(self, record: Record, reason: str) -> None:
        """Hold a record with the reason."""
        self.held.append((record, reason))

    def take(self) -> list[UnreadableRecord]:
        """Return the dead letters since the last call."""
        taken, self.held = self.held, []
        return taken


class Positions(NamedTuple):
    """Where the sinks and the dead letters stand when everything before is kept."""

    sinks: Mapping[str, int] = {}
    letters: int = 0


_NOWHERE: Final = Positions()


class Commit(Generic[Judged]):
    """Takes the four steps. ``keep`` makes the alerts of what was judged durable, and returns where the sinks stand."""

    def __init__(
        self,
        keep: Callable[[Judged], Mapping[str, int]],
        letters: DeadLetters | None = None,
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        self._keep = keep
        self._letters = letters
        self._abandon = abandon  # called when nobody waits for the alerts any longer
        self._one = asyncio.Lock()  # sinks allow one caller at a time

    def run(
        self,
        judged: Judged,
        write: Callable[[Positions], Written],
        tell: Callable[[Written], Told],
        letters: Sequence[UnreadableRecord] = (),
    ) -> Told:
        """Take all steps; return what ``tell`` makes of what was written."""
        return self.tell(tell, self.write(write, self._secure(judged, letters)))

    async def run_beside(
        self,
        judged: Judged | None,
        write: Callable[[Positions], Awaitable[None]],
        tell: Callable[[None], None],
        letters: Sequence[UnreadableRecord] = (),
    ) -> None:
        """Take the steps while the loop goes on; the first two in a thread, where there is something to keep."""
        kept = _NOWHERE
        if judged is not None or letters:
            async with self._one:
                try:
                    kept = await asyncio.to_thread(self._secure, judged, letters)
                except asyncio.CancelledError:
                    self._abandon()  # the process ends, and must not wait for the retries of the thread
                    raise
        await self.write(write, kept)
        self.tell(tell, None)

    def _secure(self, judged: Judged | None, letters: Sequence[UnreadableRecord]) -> Positions:
        sinks = self.keep_alerts(judged) if judged is not None else {}
        return Positions(sinks, self.keep_letters(letters))

    def keep_alerts(self, judged: Judged) -> Mapping[str, int]:
        """Step 1."""
        return self._keep(judged)

    def keep_letters(self, letters: Sequence[UnreadableRecord]) -> int:
        """Step 2."""
        if self._letters is None:
            return 0
        for record, reason in letters:
            self._letters.add(record, reason)
        return self._letters.flush()

    def write(self, write: Callable[[Positions], Written], kept: Positions) -> Written:
        """Step 3."""
        return write(kept)

    def tell(self, tell: Callable[[Written], Told], written: Written) -> Told:
        """Step 4."""
        return tell(written)
