"""The assignment: the same partitions of every topic; one that lacks a topic is waited out.

The leader of the group hands out the partitions of the topics that a broker has told it of, and leaves out the others.
A broker may hear of a topic some time after it was made. Then there are events without the states that belong to them:
whoever processed them would begin sessions anew beside their rows. So nothing is processed until the next assignment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from faust.types import TP

from stream_guard.errors import SettingsError, SourceError
from stream_guard.worker.kafka.descriptions import partitions_differ
from stream_guard.worker.kafka.lag import LagConsumer

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


class AssignedConsumer(LagConsumer):
    """Faust's consumer, with the check of what is assigned."""

    # Set by the app before the consumer starts.
    topic_patience: float  # seconds that a topic which the leader does not know is waited for

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._wait: Wait | None = None

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group for all topics, or not at all.

        Stopped while it starts, Faust joins for what it has come to, which may be the events alone. Then the leader
        shares out each topic by itself, and the others' rows are no longer those of their events.
        """
        wanted = {*self.stages.topics, *self.app.tables.changelog_topics}
        if wanted.issubset(topics := set(topics)) and not self.app.should_stop:
            await super().subscribe(topics)

    def _is_ready(self) -> bool:
        # To Faust's recovery, a table without partitions is complete.
        return self._wait is None and super()._is_ready()

    def lacking(self) -> Sequence[str]:
        """Return the topics of which the assignment lacks partitions."""
        return self._wait.topics if self._wait else ()

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Start with an assignment. It must have the same partitions of every topic."""
        changelogs = self.app.tables.changelog_topics
        topics = [*self.stages.topics, *changelogs]
        shares = {topic: {tp.partition for tp in assigned if tp.topic == topic} for topic in topics}
        counts = {topic: count for topic in topics if (count := self._thread.topic_partitions(topic))}
        try:
            if len(set(counts.values())) > 1:
                raise partitions_differ(counts)
            self._wait_for(find_lacking(shares, changelogs, set(filter(self._is_known_to_the_leader, topics))))
        except SettingsError as error:
            self.failure = error
        await super().on_partitions_assigned(assigned, generation_id)

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

    def _gave_up(self, wait: Wait) -> SourceError:
        return SourceError(
            f"the leader of the group has not known the partitions of {', '.join(wait.topics)} for "
            f"{self.topic_patience:.0f} s (kafka.patience), and nothing was processed; see that the brokers have "
            "them, and that the workers may describe and read them, then start the workers again"
        )


def _rejoin(consumer: Any, topics: Sequence[str]) -> None:
    """Ask for another assignment, if a leader that knows as much as we do would hand out these topics."""
    if all(map(consumer.partitions_for_topic, topics)):
        consumer._coordinator.request_rejoin()  # noqa: SLF001  # there is no other way
