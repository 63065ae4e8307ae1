"""Sharing out: the leader of the group hands out partitions and copies; members tell it which states they have.

It goes through what Faust's members tell each other anyway, under names that are no topics: a member of an earlier
version gets its partitions and no copies, and a leader of an earlier version does not look at those names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from faust.assignor.client_assignment import ClientAssignment, ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor

# Placement: which worker judges a partition, and which others keep a copy of its states.
#
# A partition stays where it is as long as nobody has two more than another. It goes to a worker that has its
# states in memory, if there is one: a worker without them would first have to read them all. Where a share is to become
# even and the worker that has too little has no states yet, it warms up: it copies them first, and the partition moves
# to it when the copy is complete. A partition with few states moves at once.


@dataclass(frozen=True, slots=True)
class MemberState:
    """What a worker had before the partitions are shared out anew."""

    owned: frozenset[int] = frozenset()
    ready: frozenset[int] | None = None  # partitions whose states it has; None for one that keeps no copies
    light: frozenset[int] = frozenset()  # partitions of its own with few states

    def has_states(self, partition: int) -> bool:
        """Whether it can go on with a partition at once."""
        return partition in (self.owned if self.ready is None else self.ready)


@dataclass(frozen=True, slots=True)
class MemberShare:
    """What a worker gets."""

    owned: set[int] = field(default_factory=set)
    copies: set[int] = field(default_factory=set)
    warming: set[int] = field(default_factory=set)  # those of the copies that move here when they are complete


def place(members: Mapping[str, MemberState], partitions: Iterable[int], copies: int) -> dict[str, MemberShare]:
    """Share out partitions, each with up to so many copies. The same members get the same shares."""
    numbers = sorted(partitions)
    shares = {name: MemberShare() for name in sorted(members)}
    for number in numbers:
        if (name := _stays_with(members, number)) is not None:
            shares[name].owned.add(number)
    held = set[int]().union(*(share.owned for share in shares.values()))
    left = [number for number in numbers if number not in held]
    # Those that only some can go on with are given first.
    for number in sorted(left, key=lambda number: not _having(members, number)):
        names = _having(members, number) or list(shares)
        shares[min(names, key=lambda name: (len(shares[name].owned), name))].owned.add(number)
    _even_out(members, shares)
    _place_copies(members, shares, copies)
    return shares


def _having(members: Mapping[str, MemberState], number: int) -> list[str]:
    return [name for name in sorted(members) if members[name].has_states(number)]


def _stays_with(members: Mapping[str, MemberState], number: int) -> str | None:
    """Return the worker that keeps a partition; None when it has to be given to one."""
    owners = [name for name in sorted(members) if number in members[name].owned]
    having = _having(members, number)
    return next((name for name in owners if name in having or not having), None)


def _even_out(members: Mapping[str, MemberState], shares: Mapping[str, MemberShare]) -> None:
    """Move partitions until nobody has two more than another; those that have to be copied first stay until then."""
    planned = {name: set(share.owned) for name, share in shares.items()}
    while True:
        low = min(planned, key=lambda name: (len(planned[name]), name))
        most = max(map(len, planned.values()))
        if most - len(planned[low]) < 2:
            return
        # Those come first that the receiver can go on with.
        _, number, high = min(
            (not members[low].has_states(number), number, name)
            for name, owned in planned.items()
            if len(owned) == most
            for number in owned
        )
        planned[high].remove(number)
        planned[low].add(number)
        if _may_move(members, number, high, low):
            shares[high].owned.remove(number)
            shares[low].owned.add(number)
        else:
            shares[low].warming.add(number)


def _may_move(members: Mapping[str, MemberState], number: int, high: str, low: str) -> bool:
    """Whether a partition moves at once, and not when its states are copied."""
    receiver, owner = members[low], members[high]
    return (
        receiver.ready is None
        or receiver.has_states(number)
        or number in owner.light
        or not owner.has_states(number)  # it would have to read them as well
    )


def _place_copies(members: Mapping[str, MemberState], shares: Mapping[str, MemberShare], copies: int) -> None:
    """Give each partition its copies: to those that have one already, and of each owner's to as many as there are."""
    beside: defaultdict[tuple[str, str], int] = defaultdict(int)  # copies of an owner's partitions, by who has them
    able = [name for name in shares if members[name].ready is not None]
    for owner, share in shares.items():
        for number in sorted(share.owned):
            others = [name for name in able if name != owner]

            def fitness(name: str, number: int = number, owner: str = owner) -> tuple[bool, bool, int, int, str]:
                warm, has = number in shares[name].warming, members[name].has_states(number)
                return not warm, not has, beside[owner, name], len(shares[name].copies), name

            warming = [name for name in others if number in shares[name].warming]
            for name in {*sorted(others, key=fitness)[:copies], *warming}:
                shares[name].copies.add(number)
                beside[owner, name] += 1


# No topic has a name with a #.
COPIES: Final = "#copies"  # from a member: partitions whose states it has; to it: those whose copies it is to keep
LIGHT: Final = "#light"  # partitions of its own with few states
WARMING: Final = "#warming"  # copies whose partitions move to it when they are complete


class SharingAssignor(PartitionAssignor):
    """Faust's assignor, but partitions stay where they are, and go to where their states are."""

    # Set by the consumer, before the group is joined.
    wanted = 0  # copies of each partition
    ready: frozenset[int] = frozenset()  # partitions whose states are in memory
    light: frozenset[int] = frozenset()  # of those, our own with few states
    # Set by each assignment.
    copies: frozenset[int] | None = None  # to keep; None when the leader does not hand out copies
    warming: frozenset[int] = frozenset()

    @property
    def _metadata(self) -> Any:
        metadata = super()._metadata
        told = {COPIES: sorted(self.ready), LIGHT: sorted(self.light)} if self.wanted else {}
        metadata.assignment = ClientAssignment(actives=self._assignment.actives, standbys=told)
        return metadata

    def on_assignment(self, assignment: Any) -> None:
        """Take an assignment. Faust does not get to see what is no topic."""
        super().on_assignment(assignment)
        standbys = self._assignment.standbys
        copies = standbys.pop(COPIES, None)
        self.copies = None if copies is None else frozenset(copies)
        self.warming = frozenset(standbys.pop(WARMING, ()))
        self._standby_tps = self._assignment.standby_tps

    def _perform_assignment(self, cluster: Any, member_metadata: Any) -> Any:
        planned = super()._perform_assignment(cluster, member_metadata)
        plans = {
            name: ClientMetadata.loads(self._decompress(assignment.user_data)) for name, assignment in planned.items()
        }
        topics = {frozenset(member.subscription) for member in member_metadata.values()}
        actives = [plan.assignment.actives for plan in plans.values()]
        if len(topics) > 1 or any(not _is_shared_alike(share) for share in actives):
            return planned  # members of several kinds, or unknown topics: whoever gets it says what is wrong
        known = {name: self._state_of(metadata) for name, metadata in member_metadata.items()}
        numbers = {number for share in actives for owned in share.values() for number in owned}
        shares = place(known, numbers, self.wanted)
        names = list(actives[0])
        assignments = {name: _assignment(names, share, known[name]) for name, share in shares.items()}
        return self._protocol_assignments(
            assignments,
            self._get_changelog_distribution(assignments),
            self._get_external_topic_distribution(assignments),
            next(iter(plans.values())).topic_groups,
        )

    def _state_of(self, metadata: Any) -> MemberState:
        """Return what a member tells of itself."""
        told = self._get_client_metadata(metadata).assignment
        owned = frozenset(number for numbers in told.actives.values() for number in numbers)
        ready = told.standbys.get(COPIES)
        known = frozenset(ready) if ready is not None and self.wanted else None
        return MemberState(owned, known, frozenset(told.standbys.get(LIGHT, ())))


def _is_shared_alike(share: Mapping[str, Collection[int]]) -> bool:
    """Whether a member has the same partitions of all topics."""
    return len({frozenset(numbers) for numbers in share.values()}) == 1


def _assignment(topics: Sequence[str], share: MemberShare, member: MemberState) -> Any:
    standbys: dict[str, list[int]] = {topic: [] for topic in topics}
    if member.ready is not None:
        standbys |= {COPIES: sorted(share.copies), WARMING: sorted(share.warming)}
    return ClientAssignment(actives={topic: sorted(share.owned) for topic in topics}, standbys=standbys)
