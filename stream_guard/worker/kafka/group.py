"""A worker as a member of its group: what is assigned to it, and whose states it copies beside its own.

An assignment has the same partitions of every topic; one that lacks a topic is waited out. The leader of the group
hands out the partitions of the topics that a broker has told it of, and leaves out the others. A broker may hear of a
topic some time after it was made. Then there are events without the states that belong to them: whoever processed
them would begin sessions anew beside their rows. So nothing is processed until the next assignment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.errors import KafkaError
from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP

from stream_guard.errors import SettingsError, SourceError
from stream_guard.judge.counts import CopyState
from stream_guard.worker.changelog import ChangelogTable
from stream_guard.worker.kafka.changelog import ChangelogFollower
from stream_guard.worker.kafka.sharing import SharingAssignor
from stream_guard.worker.kafka.topics import describe_topics, partitions_differ
from stream_guard.worker.stages import TopicRouter

LIGHT: Final = 10_000  # rows that are read in less time than it takes to share out partitions a second time
HEAVY: Final = 50_000  # rows that a worker which was started again does not read, where another has a copy
PATIENCE: Final = 5.0  # seconds that the brokers may take to say whether the changelog is the same topic

LOOK: Final = 1.0  # seconds between two questions for the topics that are lacking
REJOIN: Final = 5.0  # seconds that a leader which has learned of its topics may take for another assignment

_logger = logging.getLogger(__name__)


def find_lacking(shares: Mapping[str, Set[int]], changelogs: Collection[str], known: Collection[str]) -> list[str]:
    """Return the topics of which an assignment lacks partitions; SettingsError when the others are not shared alike.

    ``known``: the topics that the leader knew. Nobody gets partitions of the others, and that passes. Of those that it
    knew, workers get different partitions if they do not all read the same topics.
    """
    lacking = [topic for topic in shares if topic not in known]
    events = {frozenset(shares[topic]) for topic in shares if topic in known and topic not in changelogs}
    numbers = max(events, key=len, default=frozenset[int]())
    rows = {topic: shares[topic] for topic in changelogs if topic in known}
    if len(events) > 1 or any(not share <= numbers for share in rows.values() if events):
        read = ", ".join(topic for topic in shares if topic not in changelogs)
        raise SettingsError(
            f"the workers of this group do not read the same topics (this one: {read}); stop all of "
            "them before you change --rekey, or bring in or remove the last rule that looks across sessions"
        )
    return lacking + [topic for topic, share in rows.items() if share < numbers]


@dataclass
class Wait:
    """A wait for topics that are lacking."""

    topics: Sequence[str]
    since: float  # the first of the assignments that lack something
    look: float  # when to ask for the topics
    rejoin: float  # when to ask for another assignment


class GroupConsumer(Consumer):
    """Faust's consumer, with the check of what is assigned, and with copies of the states of others' partitions."""

    # Set by the app before the consumer starts.
    stages: TopicRouter
    table: ChangelogTable
    follower: ChangelogFollower
    copies: int  # of each partition, with other workers
    client: Any  # asks about topics
    topic_patience: float  # seconds that a topic which the leader does not know is waited for

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.failure: BaseException | None = None
        self._wait: Wait | None = None
        self._changelog_id = b""  # of the topic that the table was read from
        self._may_ask = True  # for partitions to be shared out anew: once after each time that they were
        self._assignments = 0

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group for all topics, or not at all.

        Stopped while it starts, Faust joins for what it has come to, which may be the events alone. Then the leader
        shares out each topic by itself, and the others' rows are no longer those of their events.
        """
        wanted = {*self.stages.topics, *self.app.tables.changelog_topics}
        if wanted.issubset(topics := set(topics)) and not self.app.should_stop:
            await super().subscribe(topics)

    def _is_ready(self) -> bool:
        """Whether all topics are assigned, their states are recovered, and nothing has failed."""
        ready = self.flow_active and not self._is_recovering() and not self.app.rebalancing
        # To Faust's recovery, a table without partitions is complete: so topics that are lacking are asked for first.
        return bool(self._wait is None and ready and self.failure is None)

    def _is_recovering(self) -> bool:
        # Of two assignments in quick succession, the recovery of the first may end while the second begins, and say
        # that the tables are ready.
        return bool(self.app.in_recovery or not self.app.tables.actives_ready)

    def _event_partitions(self) -> list[TP]:
        """Return the assigned partitions, without those of the changelog."""
        return [tp for tp in self.assignment() if not self._is_changelog_tp(tp)]

    def _changelog_partitions(self) -> list[TP]:
        return [tp for tp in self.assignment() if self._is_changelog_tp(tp)]

    def lacking(self) -> Sequence[str]:
        """Return the topics of which the assignment lacks partitions."""
        return self._wait.topics if self._wait else ()

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Start with an assignment; keep the rows of its partitions and of the copies, and no others."""
        owned = {tp.partition for tp in assigned if self._is_changelog_tp(tp)}
        wanted = self._assignor.copies
        followed: Iterable[int] = self.table.known() if wanted is None else wanted
        copies = set(followed) - owned if self.copies else set[int]()
        self.follower.follow(copies)
        await self._recognise_changelog()
        self.table.keep(owned | copies)
        self._may_ask = True
        self._assignments += 1
        try:
            self._look_for_lacking(assigned)
        except SettingsError as error:
            self.failure = error
        await super().on_partitions_assigned(assigned, generation_id)

    def _look_for_lacking(self, assigned: set[TP]) -> None:
        """Wait for topics that the assignment lacks; SettingsError when it has not the same partitions of every one."""
        changelogs = self.app.tables.changelog_topics
        topics = [*self.stages.topics, *changelogs]
        shares = {topic: {tp.partition for tp in assigned if tp.topic == topic} for topic in topics}
        counts = {topic: count for topic in topics if (count := self._thread.topic_partitions(topic))}
        if len(set(counts.values())) > 1:
            raise partitions_differ(counts)
        self._wait_for(find_lacking(shares, changelogs, set(filter(self._is_known_to_the_leader, topics))))

    def _is_known_to_the_leader(self, topic: str) -> bool:
        try:
            self.app.assignor.group_for_topic(topic)  # the leader tells how it grouped the topics that it knew
        except KeyError:
            return False
        return True

    def _wait_for(self, lacking: Sequence[str]) -> None:
        """Wait for an assignment that lacks nothing, or go on."""
        now, wait = time.monotonic(), self._wait
        if not lacking:
            self._wait = None
        elif wait:
            self._wait = Wait(lacking, wait.since, wait.look, now + REJOIN)
        else:
            self._wait = Wait(lacking, now, now, now + REJOIN)
            _logger.warning(
                "the leader of the group has handed out partitions without those of %s: it does not know them yet; "
                "nothing is processed until it does",
                ", ".join(lacking),
            )
        if wait and not lacking:
            _logger.info("partitions of all topics are handed out, %.1f s later", now - wait.since)

    def watch_assignment(self) -> None:
        """While topics are lacking, see to it that they are found and handed out; fail when that takes too long.

        A client asks for topics every few minutes by itself. The leader's client asks for another assignment when it
        finds some. A leader that was started again under its name does not know that it is the leader: so after a while
        everybody asks.
        """
        wait, now = self._wait, time.monotonic()
        if wait is None or now < wait.look:
            return
        if now - wait.since > self.topic_patience:
            self.failure = self.failure or self._gave_up(wait)
        wait.look = now + LOOK
        consumer: Any = self._thread._ensure_consumer()  # noqa: SLF001  # as Faust does
        loop = self._thread.thread_loop
        loop.call_soon_threadsafe(consumer._client.force_metadata_update)  # noqa: SLF001  # there is no other way
        if now >= wait.rejoin and not self.app.rebalancing:
            wait.rejoin = now + REJOIN
            loop.call_soon_threadsafe(_rejoin, consumer, wait.topics)

    def watch_membership(self) -> None:
        """Fail when the client has given up its group: it keeps the error for somebody to ask, and Faust does not."""
        consumer: Any = getattr(self._thread, "_consumer", None)  # there is none before the thread has started
        coordinator = consumer and consumer._coordinator  # noqa: SLF001  # there is no other way
        error = coordinator and coordinator._pending_exception  # noqa: SLF001  # as above
        if coordinator and (error or coordinator._coordination_task.done()):  # noqa: SLF001  # as above
            self.failure = self.failure or SourceError(
                f"the client has left its group: {repr(error) if error else 'the log says why'}; look at the brokers, "
                "the rights to the group and worker.session_timeout; nothing is lost: start the worker again"
            )

    def _gave_up(self, wait: Wait) -> SourceError:
        return SourceError(
            f"the leader of the group has not known the partitions of {', '.join(wait.topics)} for "
            f"{self.topic_patience:.0f} s (kafka.patience), and nothing was processed; see that the brokers have "
            "them, and that the workers may describe and read them, then start the workers again"
        )

    @property
    def _assignor(self) -> SharingAssignor:
        assignor: Any = self.app.assignor
        return assignor  # type: ignore[no-any-return]  # the app was made with it

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


def _rejoin(consumer: Any, topics: Sequence[str]) -> None:
    """Ask for another assignment, if a leader that knows as much as we do would hand out these topics."""
    if all(map(consumer.partitions_for_topic, topics)):
        consumer._coordinator.request_rejoin()  # noqa: SLF001  # there is no other way
