"""Ownership: from which moment the assigned partitions are ours, and how we learn that they no longer are."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

from aiokafka.errors import KafkaError
from faust.types import TP

from stream_guard.errors import SourceError, StoreError
from stream_guard.observability.steady_clock import steady_time
from stream_guard.worker.changelog import FencedError
from stream_guard.worker.fetched_records import TopicPartition
from stream_guard.worker.kafka.copying import CopyingConsumer
from stream_guard.worker.kafka.descriptions import TopicDescription, describe_topics, partitions_differ
from stream_guard.worker.kafka.lag import END_OFFSETS
from stream_guard.worker.known_topics import PresentTopic, changed, recognise, refusal
from stream_guard.worker.rows import KnownTopic, encode_row, import_key, known_topics, owner_key, topics_key
from stream_guard.worker.store import RowChange

CHECK: Final = 10.0  # seconds between two looks at the topics, and after a question without an answer
NEVER_READ: Final = KnownTopic(b"")
HEARSAY: Final = 1.0  # seconds until all brokers know of a topic

_logger = logging.getLogger(__name__)


class OwningConsumer(CopyingConsumer):
    """Faust's consumer, with the claim of partitions and the checks of what must stay as it was."""

    # Set by the app before the consumer starts.
    sources: Collection[str]  # the topics of the address; the others are the group's own
    accept_gaps: bool  # a topic that was made anew may be read
    fence_patience: float  # seconds that a worker without its partitions waits for others

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_owner = False  # of the assigned partitions
        self._fenced: tuple[float, FencedError] | None = None  # until when to wait, and what happened
        self._checked = 0.0  # when the topics were looked at last
        self._confirm_again = 0.0  # when to ask for end offsets again, after no answer

    async def _become_owner(self) -> bool:
        """Claim the assigned partitions, and see that their topics are those that were read before.

        False when the brokers cannot answer yet: a partition may be between two leaders. The next claim is another one.
        """
        tables: Any = self.app.tables  # Faust's interface leaves out the recovery
        highwaters = tables.recovery.active_highwaters  # of the last row, and not of the next one
        recovered = {
            tp.partition: max(highwaters[tp] + 1 if tp in highwaters else 0, self.table.end(tp.partition))
            for tp in self._changelog_partitions()
        }
        for number in recovered:
            if import_key(number) in self.table.recovered(number):
                raise StoreError(
                    f"the import of states into partition {number} has not finished; import the same file again, and "
                    "start the workers then"
                )
        new = {number for number in recovered if owner_key(number) not in self.table.recovered(number)}
        await self.table.claim(recovered)
        self.stages.drop_partitions()  # opened before the claim, they may lack rows
        try:
            described, ends = await self._describe()
        except (KafkaError, TimeoutError) as error:
            _logger.info("no answer about the topics: %r; asking again", error)
            return False
        if await self._recognise_topics(described, ends, new):
            self.stages.drop_partitions()  # opened under what was known of the topics before
        self._checked = time.monotonic()
        self._is_owner = True
        return True

    async def _recognise_topics(
        self, described: Mapping[str, TopicDescription], ends: Mapping[TP, int], new: Collection[int]
    ) -> bool:
        """Record the topics of the partitions; raise SourceError for one that is not the one that was read before.

        Returns whether something new is known of them.
        """
        changes: dict[int, list[RowChange]] = {}
        for number in sorted({tp.partition for tp in ends}):
            before = known_topics(self.table.recovered(number), number)
            now = dict(before)
            for tp in sorted(tp for tp in ends if tp.partition == number):
                source, present = TopicPartition(*tp), PresentTopic(described[tp.topic].topic_id, ends[tp])
                if number in new and (self._committed_offset[tp] or 0) > 0:
                    self._refuse_lost_states(source)
                accept = self.accept_gaps and tp.topic in self.sources
                now[tp.topic] = recognise(source, before.get(tp.topic), present, self._position(tp), accept=accept)
                if now[tp.topic].incarnation > before.get(tp.topic, NEVER_READ).incarnation:
                    _logger.warning("%s/%d: another topic is read under this name, from its first record", *tp)
                    self._committed_offset[tp] = 0
                    self._discarded.add(tp)
            if now != before:
                changes[number] = [(topics_key(number), encode_row(now))]
        await self.table.write(changes)
        return bool(changes)

    def _refuse_lost_states(self, source: TopicPartition) -> None:
        what = f"{source.topic}/{source.partition} was read by this group, and there are no states of it"
        if not self.accept_gaps:
            raise SourceError(
                f"{what}: the group's changelog was deleted; to go on without the states, start the workers with "
                f"{source.topic}?gaps=accept once, or use another group"
            )
        _logger.warning("%s; going on without", what)

    def _done(self, tp: TP) -> int | None:
        # To open a partition takes time, and before the claim it may lack rows.
        return super()._done(tp) if self._is_owner else self._committed_offset[tp]

    def _position(self, tp: TP) -> int | None:
        """Return the offset from which a partition goes on; None when nothing of it was read."""
        offset = self.stages.next_offset(TopicPartition(*tp))
        return self._committed_offset[tp] if offset is None else offset

    async def _describe(self) -> tuple[Mapping[str, TopicDescription], Mapping[TP, int]]:
        """Return the topics as the brokers have them, and the end offsets of the assigned partitions."""
        topics = {*self.stages.topics, *(tp.topic for tp in self._changelog_partitions())}
        described = await describe_topics(self.client, sorted(topics))
        if topics - described.keys():
            await asyncio.sleep(HEARSAY)  # a broker may not have heard of a topic yet
            described = await describe_topics(self.client, sorted(topics))
        if missing := topics - described.keys():
            raise SourceError(f"there is no topic {', '.join(sorted(missing))} any more; create it again")
        counts = {topic: described[topic].partitions for topic in sorted(topics)}
        if len(set(counts.values())) > 1:
            raise partitions_differ(counts)
        partitions = self._event_partitions()
        ends = await asyncio.wait_for(self.highwaters(*partitions), END_OFFSETS) if partitions else {}
        return described, dict(ends)

    async def _confirm_ends(self) -> bool:
        """Ask where all partitions end, now; False without an answer. FencedError when a changelog has another owner.

        Rows of others are found here: an owner that writes nothing would not meet them.
        """
        if time.monotonic() < self._confirm_again:
            return False
        events, rows, asked = self._event_partitions(), self._changelog_partitions(), steady_time()
        try:
            ends = dict(await asyncio.wait_for(self.highwaters(*events, *rows), END_OFFSETS))
            for tp in rows:
                if ends[tp] > self.table.end(tp.partition):  # rows of others, or our own in flight
                    await self.table.check(tp.partition, partial(self._end_of, tp))
                else:
                    self.table.note_complete(tp.partition)
        except (KafkaError, TimeoutError) as error:  # BrokerHealth handles brokers that do not answer
            _logger.info("no answer about the ends of partitions: %r; their clocks stand still", error)
            self._confirm_again = time.monotonic() + CHECK
            return False
        self._learn_ends({tp: ends[tp] for tp in events}, asked)
        return True

    async def _end_of(self, tp: TP) -> int:
        ends = await asyncio.wait_for(self.highwaters(tp), END_OFFSETS)
        return int(ends[tp])

    async def _check_topics(self) -> None:
        """See now and then that the topics are the same."""
        if time.monotonic() - self._checked < CHECK:
            return
        self._checked = time.monotonic()
        try:
            described, ends = await self._describe()
        except (KafkaError, TimeoutError) as error:  # as above
            _logger.info("no answer about the topics: %r", error)
            return
        for tp, end in ends.items():
            known = known_topics(self.table.recovered(tp.partition), tp.partition).get(tp.topic)
            if what := changed(known, PresentTopic(described[tp.topic].topic_id, end), self._position(tp)):
                raise refusal(TopicPartition(*tp), what)

    def _be_fenced(self, error: FencedError) -> None:
        """Process nothing more until partitions are assigned again."""
        if self._fenced is None:
            _logger.warning("%s; waiting for partitions", error)
            self._fenced = (time.monotonic() + self.fence_patience, error)
        self._is_owner = False

    def _is_fenced(self) -> bool:
        """Whether the partitions have another owner; raise FencedError when that lasts."""
        if self._fenced is None:
            return False
        until, error = self._fenced
        if time.monotonic() > until:
            raise FencedError(f"{error}: start the worker again") from error
        return True

    def _forget_assignment(self) -> None:
        self._is_owner = False
        self._fenced = None
