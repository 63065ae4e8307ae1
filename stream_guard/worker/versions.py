"""Which rollout judges a partition, from which offset on.

A partition is switched between two batches, when all before is durable. The switch is a row of the partition, and the
broker has acknowledged it before the first record is judged by the new policy. So the policy that is in force at an
event is what the changelog says, whoever reads it and whenever: a successor goes on with it.

A worker that takes a partition over cannot know what the one before had judged and not made durable; alerts of that
may be out. It switches only when it has judged all that was there when it came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from typing import TypeAlias

from stream_guard.worker.batches import StateTable
from stream_guard.worker.fetched_records import FetchedBatch, TopicPartition
from stream_guard.worker.rollouts import PolicySwitch, PreparedRollout, RolloutLog
from stream_guard.worker.rows import (
    PolicyRow,
    decode_policy,
    encode_row,
    policy_key,
    progress_key,
)
from stream_guard.worker.stages import TopicRouter, TopicStage

FindEnds: TypeAlias = Callable[[Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]
"""Asks the brokers where partitions end; nothing when they do not answer."""


class PartitionPolicies:
    """The rollout of each partition that is assigned."""

    def __init__(self, log: RolloutLog, rows: StateTable) -> None:
        self.log = log
        self._rows = rows
        self._in_force: dict[int, PreparedRollout] = {}

    def of(self, partition: int) -> PreparedRollout:
        """Return the rollout that a partition is judged by; the file's policy where it has no row."""
        found = self._in_force.get(partition)
        if found is None:
            row = self._rows.recovered(partition).get(policy_key(partition))
            found = self.log.file if row is None else self.log.at(decode_policy(row), partition)
            self._in_force[partition] = found
        return found

    def is_new(self, partition: int) -> bool:
        """Whether nothing of a partition was ever judged."""
        rows = self._rows.recovered(partition)
        return policy_key(partition) not in rows and progress_key(partition) not in rows

    def forget(self) -> None:
        """Read the rows again: other partitions are assigned."""
        self._in_force.clear()

    async def switch(self, offsets: Mapping[int, Mapping[str, int]]) -> None:
        """Make the last rollout the one that judges these partitions, from these offsets on."""
        latest = self.log.latest
        rows = {
            partition: [(policy_key(partition), encode_row(PolicyRow(1, latest.number, dict(starts), latest.version)))]
            for partition, starts in offsets.items()
        }
        await self._rows.write(rows)
        self._in_force |= dict.fromkeys(offsets, latest)

    def retire(self) -> None:
        """Forget the engines by which no partition is judged any more."""
        self.log.retire({found.number for found in self._in_force.values()})


class VersionedRouter(TopicRouter):
    """A router whose partitions are switched to the last rollout, each where its row says so."""

    def __init__(
        self,
        stages: Mapping[str, TopicStage],
        judging: TopicStage,
        policies: PartitionPolicies,
        find_ends: FindEnds,
        *,
        group: str,
    ) -> None:
        super().__init__(stages)
        self._judging = judging
        self._judged = [topic for topic, stage in stages.items() if stage is judging]
        self._policies = policies
        self._find_ends = find_ends
        self._group = group
        self._ends: dict[int, Mapping[TopicPartition, int]] = {}  # where partitions ended when they were taken over
        self._caught_up: set[int] = set()  # partitions of which all is judged that was there then
        self._switched: list[PolicySwitch] = []

    def take_switches(self) -> list[PolicySwitch]:
        """Return the switches since the last call, for those who look on."""
        taken, self._switched = self._switched, []
        return taken

    async def process(self, batch: FetchedBatch, on_durable: Callable[[FetchedBatch], None]) -> None:
        """Process a batch; switch its partitions before, where they are to be."""
        await self._switch({source.partition for source in batch if source.topic in self._judged})
        await super().process(batch, on_durable)

    async def tick(
        self, partitions: Set[int], unread: Sequence[TopicPartition], read_until: Mapping[TopicPartition, float]
    ) -> None:
        """Advance the clocks of idle partitions; switch them before."""
        idle = partitions - {source.partition for source in unread}
        self._caught_up |= idle
        await self._switch(idle)
        await super().tick(partitions, unread, read_until)

    def drop_partitions(self) -> None:
        """Drop the state of all partitions."""
        super().drop_partitions()
        self._policies.forget()
        self._ends.clear()
        self._caught_up.clear()

    async def _switch(self, partitions: Collection[int]) -> None:
        for number in sorted(set(partitions) - self._caught_up):
            await self._look_whether_caught_up(number)
        latest = self._policies.log.latest
        ready = sorted(self._caught_up.intersection(partitions))
        due = [number for number in ready if self._policies.of(number) is not latest]
        if not due:
            return
        await self.flush()
        starts = {number: self._next_offsets(number) for number in due}
        await self._policies.switch(starts)
        self._judging.drop_partitions()  # they are made from their rows again, with the engines that they have now
        self._policies.retire()
        self._switched += [
            PolicySwitch(group=self._group, partition=number, rollout=latest.number, offsets=starts[number])
            for number in due
        ]

    def _next_offsets(self, partition: int) -> dict[str, int]:
        return {topic: self.next_offset(TopicPartition(topic, partition)) or 0 for topic in self._judged}

    async def _look_whether_caught_up(self, partition: int) -> None:
        """Find out whether all is judged that another worker may have judged, and not made durable, by its policy."""
        if self._policies.is_new(partition):
            self._caught_up.add(partition)
            return
        ends = self._ends.get(partition)
        if not ends:
            ends = await self._find_ends([TopicPartition(topic, partition) for topic in self._judged])
            self._ends[partition] = ends
        starts = self._next_offsets(partition)
        if ends and all(starts[source.topic] >= end for source, end in ends.items()):
            self._caught_up.add(partition)
