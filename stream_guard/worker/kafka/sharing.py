"""Sharing out: the leader of the group hands out partitions and copies; members tell it which states they have.

It goes through what Faust's members tell each other anyway, under names that are no topics: a member of an earlier
version gets its partitions and no copies, and a leader of an earlier version does not look at those names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from faust.assignor.client_assignment import ClientAssignment, ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor

from stream_guard.worker.placement import MemberShare, MemberState, place

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
