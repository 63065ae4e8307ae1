"""How far the consumer is behind, and which partitions should give something and do not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from aiokafka.errors import KafkaError
from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP

from stream_guard.worker.fetched_records import TopicPartition
from stream_guard.worker.stages import Stages

SUSPICION: Final = 5.0  # seconds without a record from a partition that has some
ASK: Final = 5.0  # seconds between two questions to the broker about where partitions end


class LagConsumer(Consumer):
    """Faust's consumer, which knows what of its partitions is settled and what waits."""

    judge: Stages  # given by the app before the consumer starts

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._settled: dict[TP, int] = {}  # what may be committed: the next offset
        self._dropped: set[TP] = set()  # gave records that were not judged, and has to give them again
        self._waiting: dict[TP, tuple[int, float]] = {}  # has more since then, and gives nothing after that offset
        self._reread: dict[TP, int] = {}  # was read once more from there, because nothing came
        self._passed: dict[TP, int] = {}  # where the client stood after that: behind marks of transactions
        self._ends: dict[TP, int] = {}  # where partitions end, as the broker said when it was asked
        self._asked = 0.0
        self.failure: BaseException | None = None

    def _is_ready(self) -> bool:
        """Whether partitions are assigned and their states recovered, and nothing has failed."""
        ready = self.flow_active and self.app.tables.actives_ready and not self.app.rebalancing
        return bool(ready and self.failure is None)

    def _places(self) -> list[TP]:
        return [place for place in self.assignment() if not self._is_changelog_tp(place)]

    def lag_of(self, place: TP) -> int | None:
        """Return how many records wait to be judged; None while nobody has said."""
        told: int | None = self.highwater(place)
        end = self._ends.get(place) if told is None else max(told, self._ends.get(place, 0))
        upto = self._settled.get(place)
        if upto is None:
            upto = self.judge.next_offset(TopicPartition(*place))
        passed = self._passed.get(place)
        if passed is not None and self._was_read_again(place):
            upto = max(passed, upto or 0)
        if end is None or (upto is None and end > 0):
            return None
        return max(0, end - (upto or 0))

    def lag(self) -> int:
        """Return how many records wait to be judged, as far as we know."""
        return sum(self.lag_of(place) or 0 for place in self._places()) if self._is_ready() else 0

    async def ask_ends(self) -> None:
        """Ask the broker now and then where partitions end: a client that fetches no more does not hear of it."""
        places = self._places()
        if time.monotonic() - self._asked < ASK or not places or not self._is_ready():
            return
        self._asked = time.monotonic()
        with suppress(KafkaError, TimeoutError):  # whether the broker answers at all is looked after elsewhere
            self._ends = dict(await asyncio.wait_for(self.highwaters(*places), ASK))

    async def _pass_marks(self) -> None:
        """Find out where the client has gone over all there is: marks of transactions have offsets, and no record.

        It is believed only where it went there once more from what is settled, and gave nothing.
        """
        for place in list(self._waiting):
            if self._was_read_again(place):
                position = await self.position(place)
                if position is not None:
                    self._passed[place] = position

    def _was_read_again(self, place: TP) -> bool:
        return place not in self._dropped and self._reread.get(place) == self._settled.get(place, -1)

    def _suspect(self, lagging: Sequence[TP]) -> None:
        """Have partitions read again that should give something and do not: asking twice is cheap, losing is not."""
        now, before = time.monotonic(), self._waiting
        self._waiting = {}
        for place in lagging:
            upto = self._settled.get(place, -1)
            at, since = before.get(place, (upto, now))
            if at != upto or now - since > SUSPICION:
                if at == upto:
                    self._dropped.add(place)
                    self._reread[place] = upto
                at, since = upto, now
            self._waiting[place] = (at, since)
