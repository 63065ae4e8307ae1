"""Rollouts: policies for a whole group of workers, in the order of a control topic.

A record of the topic is a rollout: a policy, whole, and for tenants that are held back the policy that stays in force
for them. Its offset is its number. What cannot be used is refused and counted, and changes nothing.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from typing import Final, NamedTuple, TypeAlias, get_args

import msgspec

from stream_guard.errors import SettingsError, StoreError, StreamGuardError
from stream_guard.judge.counts import ByRule, Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import resolved
from stream_guard.judge.spec import Policy
from stream_guard.worker.rows import PolicyRow, decode_policy, encode_row, policy_key, progress_key
from stream_guard.worker.stages import FetchedBatch, StateTable, TopicPartition, TopicRouter, TopicStage

FROM_FILE: Final = -1  # the number of the policy file's own
NOWHERE: Final = -2  # the number of no rollout
_ROLLOUT: Final = b"rollout/"
_SWITCH: Final = b"switch/"

_logger = logging.getLogger(__name__)


@resolved
class PublishedPolicy(msgspec.Struct, frozen=True):
    """A policy in the native form, and the version that it has where it was published."""

    version: str
    text: str


@resolved
class PolicyRollout(msgspec.Struct, frozen=True, kw_only=True):
    """One policy for everybody, and others for tenants that are held back."""

    policy: PublishedPolicy
    held: dict[str, PublishedPolicy] = {}  # by tenant
    by: str = ""
    note: str = ""
    time: float = 0.0  # when it was published; for people


@resolved
class PolicySwitch(msgspec.Struct, frozen=True, kw_only=True):
    """A partition is judged by a rollout from these offsets on, by topic."""

    group: str
    partition: int
    rollout: int
    offsets: dict[str, int]


class PreparedRollout(NamedTuple):
    """A rollout that workers can judge by."""

    number: int
    judge: Judge
    held: Mapping[str, Judge]  # by tenant

    @property
    def version(self) -> str:
        """The version of the policy for everybody."""
        return self.judge.policy.version

    @property
    def judges(self) -> tuple[Judge, ...]:
        """The judges whose rules it lends, that for everybody last."""
        return (*self.held.values(), self.judge)


Prepare: TypeAlias = Callable[[int, PolicyRollout], PreparedRollout]
"""Makes judges of a rollout's policies, or raises StreamGuardError."""


encode_rollout: Final = msgspec.json.Encoder().encode
encode_switch: Final = encode_rollout
_decode_rollout: Final = msgspec.json.Decoder(PolicyRollout).decode
_decode_switch: Final = msgspec.json.Decoder(PolicySwitch).decode


def open_published(published: PublishedPolicy, load: Callable[[str], Policy]) -> Policy:
    """Return a published policy; raise StreamGuardError where it cannot be used, or is another one here."""
    policy = load(published.text)
    if policy.version != published.version:
        raise SettingsError(
            f"it is policy {policy.version} here and was {published.version} where it was published; install the "
            "same version of stream_guard and of the plugins"
        )
    refuse_for_rollouts(policy)
    return policy


def refuse_for_rollouts(policy: Policy) -> None:
    """Raise SettingsError for rules that cannot be used where policies come from a topic.

    Partitions are switched one after the other, and a rule across sessions gets events of all of them. A finding that
    waits for a judge is settled by the judge that is in force then.
    """
    asking = ", ".join(rule.id for rule in policy.rules if rule.rule.asks)
    crosses = bool(Judge(policy, mode="stream").across)
    reason = "look across sessions" if crosses else f"ask a judge ({asking})" if asking else ""
    if reason:
        raise SettingsError(
            f"it has rules that {reason}, and those cannot be used with worker.policy_topic; leave them out, or use "
            "the policy file alone"
        )


def rollout_key(name: str) -> bytes:
    """Return the key of a rollout. Each has its own: compaction removes none."""
    return _ROLLOUT + name.encode()


def switch_key(switch: PolicySwitch) -> bytes:
    """Return the key of the record that tells others of a switch."""
    return _SWITCH + f"{switch.group}/{switch.partition}/{switch.rollout}".encode()


def is_switch(key: bytes | None) -> bool:
    """Whether a record tells of a switch, by its key."""
    return key is not None and key.startswith(_SWITCH)


class ControlRecords:
    """The records of a control topic, as far as they were read."""

    def __init__(self) -> None:
        self.rollouts: dict[int, PolicyRollout] = {}
        self.switched: defaultdict[tuple[int, str], set[int]] = defaultdict(set)  # partitions, by rollout and group

    def add(self, number: int, key: bytes | None, value: bytes | None) -> str:
        """Take a record in; return what is wrong with it, empty where nothing is."""
        try:
            if is_switch(key):
                switch = _decode_switch(value or b"")
                self.switched[switch.rollout, switch.group].add(switch.partition)
            else:
                self.rollouts[number] = _decode_rollout(value or b"")
        except msgspec.DecodeError as error:
            return f"it is no rollout: {error}"
        return ""

    def latest(self) -> PolicyRollout | None:
        """Return the last rollout."""
        return self.rollouts[max(self.rollouts)] if self.rollouts else None


class ListedRollout(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout as people are shown it."""

    number: int
    time: float
    version: str
    held: str  # which tenants have which version instead
    switched: str  # which groups have switched how many partitions to it
    by: str
    note: str


def list_rollouts(records: ControlRecords) -> list[ListedRollout]:
    """Return the rollouts, the last one first."""
    return [
        ListedRollout(
            number=number,
            time=rollout.time,
            version=rollout.policy.version,
            held=", ".join(f"{tenant}: {kept.version}" for tenant, kept in sorted(rollout.held.items())),
            switched=", ".join(
                f"{group}: {len(partitions)} partitions"
                for (to, group), partitions in sorted(records.switched.items())
                if to == number
            ),
            by=rollout.by,
            note=rollout.note,
        )
        for number, rollout in sorted(records.rollouts.items(), reverse=True)
    ]


class RolloutLog:
    """The rollouts, and the judges of those that are in force somewhere. The last one is to be in force."""

    def __init__(self, file: Judge, prepare: Prepare, counts: Counts) -> None:
        self.file = self.latest = PreparedRollout(FROM_FILE, file, {})
        self._prepared = {FROM_FILE: self.file}
        self._prepare = prepare
        self._counts = counts
        self.records = ControlRecords()  # what was read
        self._next_number = 0
        self.adopted: Callable[[PreparedRollout], None] = lambda _: None  # called before one judges
        self.retired: Callable[[PreparedRollout], None] = lambda _: None  # called when one judges no more

    def add(self, number: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next record of the topic in; one that was taken in is passed over. ``choose`` makes use of it."""
        if number < self._next_number:
            return
        self._next_number = number + 1
        wrong = self.records.add(number, key, value)
        if wrong and not is_switch(key):  # switches are for those who look on
            self._refuse(number, wrong)

    def choose(self) -> None:
        """Have the last rollout that can be used as the latest; those that it replaced meanwhile are not compiled."""
        for number in sorted((one for one in self.records.rollouts if one > self.latest.number), reverse=True):
            prepared = self._compile(number)
            if prepared is not None:
                _logger.warning("rollout %d: policy %s replaces %s", number, prepared.version, self.latest.version)
                self._counts.policy_reloads["ok"] += 1
                self.latest = prepared
                self.adopted(prepared)
                return

    def _compile(self, number: int) -> PreparedRollout | None:
        try:
            prepared = self._prepared[number] = self._prepare(number, self.records.rollouts[number])
        except Exception as error:  # noqa: BLE001  # whatever is in the topic must not stop a worker
            self._refuse(number, str(error) if isinstance(error, StreamGuardError) else repr(error))
            return None
        return prepared

    def _refuse(self, number: int, wrong: str) -> None:
        self.records.rollouts.pop(number, None)
        self._counts.policy_reloads["failed"] += 1
        _logger.error("rollout %d cannot be used, %s stays in force: %s", number, self.latest.version, wrong)

    def retire(self, in_force: Collection[int]) -> None:
        """Forget the judges of rollouts that judge nothing any more; no partition may hold one."""
        for number in self._prepared.keys() - {*in_force, FROM_FILE, self.latest.number}:
            gone = self._prepared.pop(number)
            self._collect(gone, ended=True)
            self.retired(gone)

    def listed(self) -> list[ListedRollout]:
        """Return the rollouts, but for those that were found unusable, the last one first; any thread may ask."""
        return list_rollouts(self.records)

    def collect_counts(self, *, ended: bool = False) -> None:
        """Add up what the judges have counted, but for the counts by rule; at the end, the sums of those too."""
        for prepared in self._prepared.values():
            self._collect(prepared, ended=ended)

    def _collect(self, prepared: PreparedRollout, *, ended: bool) -> None:
        for judge in prepared.judges:
            if judge.counts is not self._counts:
                self._counts.take(judge.counts)
                for name in get_args(ByRule) if ended else ():
                    self._counts.replaced_policies[name] += judge.counts.total(name)

    def at(self, row: PolicyRow, partition: int) -> PreparedRollout:
        """Return the rollout that a partition was judged by; StoreError when it is not there any more.

        The number is the topic's. In another topic, to which states were moved, the last one of the policy is meant.
        """
        number, rollouts = row.rollout, self.records.rollouts
        if row.policy and (number not in rollouts or rollouts[number].policy.version != row.policy):
            same = [other for other, rollout in rollouts.items() if rollout.policy.version == row.policy]
            number = max(same, default=NOWHERE)
        found = self._prepared.get(number)
        if found is None and number in rollouts:
            found = self._compile(number)
            if found is not None:
                self.adopted(found)
        if found is None:
            raise StoreError(
                f"partition {partition} was judged by rollout {row.rollout} (policy {row.policy or 'unknown'}), which "
                "the topic of policies does not have, or which this version of stream_guard cannot use; give the "
                "worker the topic that the group had before, or publish that policy, and then the one to follow it"
            )
        return found


# Which rollout judges a partition, from which offset on.
#
# A partition is switched between two batches, when all before is durable. The switch is a row of the partition, and the
# broker has acknowledged it before the first record is judged by the new policy. So the policy that is in force at an
# event is what the changelog says, whoever reads it and whenever: a successor goes on with it.
#
# A worker that takes a partition over cannot know what the one before had judged and not made durable; alerts of that
# may be out. It switches only when it has judged all that was there when it came.

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
