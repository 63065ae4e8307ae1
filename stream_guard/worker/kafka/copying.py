"""Copies: whose states this worker keeps beside its own, and what the leader of the group is told of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from aiokafka.errors import KafkaError
from faust.types import TP

from stream_guard.judge.counts import CopyState
from stream_guard.worker.changelog import ChangelogTable
from stream_guard.worker.kafka.assignment import AssignedConsumer
from stream_guard.worker.kafka.descriptions import describe_topics
from stream_guard.worker.kafka.following import ChangelogFollower
from stream_guard.worker.kafka.sharing import SharingAssignor

LIGHT: Final = 10_000  # rows that are read in less time than it takes to share out partitions a second time
HEAVY: Final = 50_000  # rows that a worker which was started again does not read, where another has a copy
PATIENCE: Final = 5.0  # seconds that the brokers may take to say whether the changelog is the same topic

_logger = logging.getLogger(__name__)


class CopyingConsumer(AssignedConsumer):
    """Faust's consumer, with copies of the states of partitions that others own."""

    # Set by the app before the consumer starts.
    table: ChangelogTable
    follower: ChangelogFollower
    copies: int  # of each partition, with other workers
    client: Any  # asks about topics

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._changelog_id = b""  # of the topic that the table was read from
        self._may_ask = True  # for partitions to be shared out anew: once after each time that they were
        self._assignments = 0

    @property
    def _assignor(self) -> SharingAssignor:
        assignor: Any = self.app.assignor
        return assignor  # type: ignore[no-any-return]  # the app was made with it

    def _changelog_partitions(self) -> list[TP]:
        return [tp for tp in self.assignment() if self._is_changelog_tp(tp)]

    def warming(self) -> frozenset[int]:
        """Return the partitions that come to this worker when their states are copied."""
        return self._assignor.warming

    def count_copies(self) -> dict[CopyState, int]:
        """Return how many copies are complete, and how many are not."""
        followed, ready = self.follower.followed, self.table.ready()
        return {"complete": len(followed & ready), "behind": len(followed - ready)}

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Have the leader told which states are here. The rows stay: they are copies from now on."""
        await super().on_partitions_revoked(revoked)
        assignor, ready = self._assignor, self.table.ready()
        light = frozenset(number for number in ready if len(self.table.recovered(number)) < LIGHT)
        assignor.wanted, assignor.ready, assignor.light = self.copies, ready, light

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Keep the rows of the assigned partitions and of the copies, and no others."""
        owned = {tp.partition for tp in assigned if self._is_changelog_tp(tp)}
        wanted = self._assignor.copies
        followed: Iterable[int] = self.table.known() if wanted is None else wanted
        copies = set(followed) - owned if self.copies else set[int]()
        self.follower.follow(copies)
        await self._recognise_changelog()
        self.table.keep(owned | copies)
        self._may_ask = True
        self._assignments += 1
        await super().on_partitions_assigned(assigned, generation_id)

    async def _recognise_changelog(self) -> None:
        """Forget all rows when they may be those of another topic under the same name."""
        (topic,) = self.app.tables.changelog_topics
        try:
            described = await describe_topics(self.client, [topic], patience=PATIENCE)
        except KafkaError as error:
            _logger.info("no answer about %s: %r; its rows are read from the first one on", topic, error)
            described = {}
        found = described[topic].topic_id if topic in described else b""
        if not found or found != self._changelog_id:
            self.table.keep(())
        self._changelog_id = found

    def watch_copies(self) -> None:
        """Have the partitions shared out anew when that gives this worker its share, or spares it a long restore."""
        warming = self.warming()
        if not self._may_ask or self.app.rebalancing or self.lacking():
            return
        if warming and warming <= self.table.ready():
            self._ask(f"the states of {len(warming)} partitions are copied, and these may come here")
        elif self.copies and self._assignments == 1 and self.app.conf.consumer_group_instance_id:
            self._ask_for_a_warm_owner()

    def _ask_for_a_warm_owner(self) -> None:
        """Let a partition go that this worker had before it was started again: somebody may have a copy of its states.

        A worker that comes back under its name gets its partitions without a word to the leader.
        """
        tables: Any = self.app.tables  # Faust's interface leaves out the recovery
        left = tables.recovery.active_remaining_total() if self._is_recovering() else 0
        if left > HEAVY:
            self._ask(f"{left} rows of states are to be read, and another worker may have a copy of them")

    def _ask(self, why: str) -> None:
        _logger.info("asking for partitions to be shared out anew: %s", why)
        self._may_ask = False
        consumer: Any = self._thread._ensure_consumer()  # noqa: SLF001  # as Faust does
        coordinator = consumer._coordinator  # noqa: SLF001  # there is no other way
        self._thread.thread_loop.call_soon_threadsafe(coordinator.request_rejoin)
