"""Conditions over the last turn and the last message of the user, which rules ask about at later events."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard.judge.bound import BoundRule, remembered_leaves
from stream_guard.judge.conditions import Leaf
from stream_guard.judge.counts import Counts
from stream_guard.judge.index import Index, PathWatch, awaited_paths
from stream_guard.judge.model import Turn, UserMessage
from stream_guard.judge.spec import Policy


class RememberedConditions:
    """Stores which of these conditions hold; what else turns and messages are watched for is looked for here too."""

    __slots__ = ("_counts", "_turn_leaves", "_user_leaves", "_watch")

    def __init__(self, policy: Policy, active: Sequence[BoundRule], local: Index, counts: Counts) -> None:
        leaves = [leaf for spec in policy.rules for leaf in remembered_leaves(spec)]
        self._turn_leaves = _by_tag(leaves, "turn")
        self._user_leaves = _by_tag(leaves, "user")
        self._watch = _watch_others(active, local)
        self._counts = counts

    def __bool__(self) -> bool:
        """Whether there is anything to remember."""
        return bool(self._turn_leaves or self._user_leaves)

    def update(self, event: Turn | UserMessage, memory: set[int]) -> None:
        """Store in ``memory`` which conditions over the turn, or over the user's message, hold from now on."""
        leaves = self._turn_leaves if type(event) is Turn else self._user_leaves
        if self._watch is not None and not self._watch.look(event, self._counts):
            self._watch = None
        for tag, leaf in leaves.items():
            if leaf.holds(event):
                memory.add(tag)
            else:
                memory.discard(tag)
            if leaf.lacks is None:
                continue
            if leaf.lacks(event):
                memory.add(leaf.unknown_tag)
            else:
                memory.discard(leaf.unknown_tag)


def _by_tag(leaves: Sequence[Leaf], when: str) -> dict[int, Leaf]:
    return {leaf.tag: leaf for leaf in leaves if leaf.path.when == when}


def _watch_others(active: Sequence[BoundRule], local: Index) -> PathWatch | None:
    """Return the watch over paths in turns and messages that the plans for those do not look out for."""
    of_turns = local.turns.rules if local.turns is not None else []
    of_users = local.users.rules if local.users is not None else []
    awaited = awaited_paths([bound for bound in active if bound not in of_turns], ("turn",))
    awaited += awaited_paths([bound for bound in active if bound not in of_users], ("user",))
    return PathWatch(awaited) if awaited else None
