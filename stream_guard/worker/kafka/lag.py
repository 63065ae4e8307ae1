"""The lag of the consumer, and the partitions that have records and deliver none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

from aiokafka.errors import KafkaError
from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP

from stream_guard.observability.steady_clock import steady_time
from stream_guard.worker.fetched_records import TopicPartition
from stream_guard.worker.stages import TopicRouter

STALL: Final = 5.0  # seconds without a record from a partition that has some, before it is read again
END_OFFSETS: Final = 5.0  # seconds between two requests for the end offsets


class LagConsumer(Consumer):
    """Faust's consumer with the lag of each partition, counted from the offsets that may be committed."""

    stages: TopicRouter  # set by the app before the consumer starts

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._committable: dict[TP, int] = {}  # the next offset after the durable records
        self._discarded: set[TP] = set()  # partitions whose fetched records were discarded, to be read again
        self._stalled: dict[TP, tuple[int, float]] = {}  # lagging partitions: the committable offset, and since when
        self._reread_from: dict[TP, int] = {}  # the offset from which a stalled partition was read again
        self._reread_end: dict[TP, int] = {}  # the client's position after that: transaction markers are behind it
        self._end_offsets: dict[TP, int] = {}  # as the broker returned them last
        self._asked: dict[TP, tuple[float, int]] = {}  # when its end was asked for, and what it was; not yet read
        self._read_until: dict[TP, float] = {}  # all that was written before is durable
        self._requested = 0.0  # when that was
        self.failure: BaseException | None = None

    def _is_ready(self) -> bool:
        """Whether partitions are assigned, their states are recovered, and nothing has failed."""
        ready = self.flow_active and not self._is_recovering() and not self.app.rebalancing
        return bool(ready and self.failure is None)

    def _is_recovering(self) -> bool:
        # Of two assignments in quick succession, the recovery of the first may end while the second begins, and say
        # that the tables are ready.
        return bool(self.app.in_recovery or not self.app.tables.actives_ready)

    def _event_partitions(self) -> list[TP]:
        """Return the assigned partitions, without those of the changelog."""
        return [tp for tp in self.assignment() if not self._is_changelog_tp(tp)]

    def lag_of(self, tp: TP) -> int | None:
        """Return the lag of a partition in records; None while its end offset is unknown."""
        highwater: int | None = self.highwater(tp)
        end = self._end_offsets.get(tp) if highwater is None else max(highwater, self._end_offsets.get(tp, 0))
        done = self._done(tp)
        if end is None or (done is None and end > 0):
            return None
        return max(0, end - (done or 0))

    def _done(self, tp: TP) -> int | None:
        """Return the next offset after the durable records of a partition; None while it is unknown."""
        done = self._committable.get(tp)
        if done is None:
            done = self.stages.next_offset(TopicPartition(*tp))
        reread_end = self._reread_end.get(tp)
        if reread_end is not None and self._was_read_again(tp):
            done = max(reread_end, done or 0)
        return done

    def _learn_ends(self, ends: Mapping[TP, int], asked: float) -> None:
        """Take note of where partitions end, which was asked for at a wall time."""
        self._end_offsets = dict(ends)
        for tp, end in ends.items():
            self._asked.setdefault(tp, (asked, end))

    def read_until(self) -> dict[TopicPartition, float]:
        """Return, by partition, the wall time before which all that was written to it is durable."""
        known: dict[TopicPartition, float] = {}
        for tp in self._event_partitions():
            asked, end = self._asked.get(tp, (0.0, inf))
            if (self._done(tp) or 0) >= end:
                self._read_until[tp] = asked
                del self._asked[tp]
            if tp in self._read_until:
                known[TopicPartition(*tp)] = self._read_until[tp]
        return known

    def _lagging(self) -> list[TP]:
        return [tp for tp in self._event_partitions() if self.lag_of(tp) != 0]

    def lags(self) -> dict[tuple[str, str], int]:
        """Return the lag of each partition in records, as far as it is known."""
        lags = {tp: self.lag_of(tp) for tp in self._event_partitions()} if self._is_ready() else {}
        return {(tp.topic, str(tp.partition)): lag for tp, lag in lags.items() if lag is not None}

    def lag(self) -> int:
        """Return the lag of all partitions in records, as far as it is known."""
        return sum(self.lag_of(tp) or 0 for tp in self._event_partitions()) if self._is_ready() else 0

    async def refresh_end_offsets(self) -> None:
        """Request the end offsets now and then: a client that has stopped fetching does not learn of new records."""
        partitions = self._event_partitions()
        if time.monotonic() - self._requested < END_OFFSETS or not partitions or not self._is_ready():
            return
        self._requested = time.monotonic()
        with suppress(KafkaError, TimeoutError):  # BrokerHealth handles a broker that does not answer
            asked = steady_time()
            self._learn_ends(await asyncio.wait_for(self.highwaters(*partitions), END_OFFSETS), asked)

    async def _skip_markers(self) -> None:
        """Find the position behind transaction markers: they have offsets, and the client delivers no record for them.

        Trust the client's position only after re-reading from the committable offset returned no records.
        """
        for tp in list(self._stalled):
            if self._was_read_again(tp):
                position = await self.position(tp)
                if position is not None:
                    self._reread_end[tp] = position

    def _was_read_again(self, tp: TP) -> bool:
        return tp not in self._discarded and self._reread_from.get(tp) == self._committable.get(tp, -1)

    def _reread_stalled(self, lagging: Sequence[TP]) -> None:
        """Read lagging partitions again that have delivered nothing for a while. It is cheap; a lost record is not."""
        now, before = time.monotonic(), self._stalled
        self._stalled = {}
        for tp in lagging:
            committable = self._committable.get(tp, -1)
            offset, since = before.get(tp, (committable, now))
            if offset != committable or now - since > STALL:
                if offset == committable:
                    self._discarded.add(tp)
                    self._reread_from[tp] = committable
                offset, since = committable, now
            self._stalled[tp] = (offset, since)
