"""Rules mined from sessions that went well: which call always comes before which."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from stream_guard.model import Event, ToolCall, Turn
from stream_guard.policy.yaml_out import write_yaml

# A name an agent made up must not become a pattern in a policy, nor a hundred lines of it.
_PLAIN: Final = re.compile(r"[\w.:/-]{1,128}")
MAX_TOOLS: Final = 200  # pairs grow with the square; the rarest tools beyond this are left out


class CallOrder(msgspec.Struct, frozen=True, kw_only=True):
    """In sessions that call ``second``, ``first`` was called before it."""

    first: str
    second: str
    support: int  # sessions that call second
    confidence: float  # the share of those in which first came before


def mine_sequences(events: Iterable[Event], *, min_support: int = 5, min_confidence: float = 0.95) -> list[CallOrder]:
    """Return the orders that the sessions keep, the surest first.

    An order that follows from two others is left out: with a before b and b before c, a before c says
    nothing more.
    """
    orders = _first_calls(events)
    common = Counter(tool for order in orders for tool in order)
    tools = {tool for tool, _ in common.most_common(MAX_TOOLS)}
    before: Counter[tuple[str, str]] = Counter()
    for order in orders:
        kept = [tool for tool in order if tool in tools]
        before.update((first, second) for place, second in enumerate(kept) for first in kept[:place])
    found = {
        (first, second): CallOrder(
            first=first, second=second, support=common[second], confidence=count / common[second]
        )
        for (first, second), count in before.items()
        if common[second] >= min_support and count / common[second] >= min_confidence
    }
    kept_orders = [order for pair, order in found.items() if not _follows(pair, found)]
    return sorted(kept_orders, key=lambda order: (-order.confidence, -order.support, order.first, order.second))


def draft_policy(sequences: Sequence[CallOrder], sessions: int) -> str:
    """Return a policy to review, of rules in shadow mode."""
    return write_yaml({"name": "mined-draft", "rules": mined_rules(sequences, sessions)})


def mined_rules(sequences: Sequence[CallOrder], sessions: int) -> list[dict[str, Any]]:
    """Return rules to review: each in shadow mode, with what it rests on as its reason."""
    return [
        {
            "id": f"mined-{number}",
            "kind": "must_call_before",
            "params": {"first": order.first, "second": order.second},
            "severity": "warning",
            "mode": "shadow",
            "reason": (
                f"Mined, not reviewed: held in {order.confidence:.0%} of the {order.support} sessions (of {sessions}) "
                f"that make the second call."
            ),
        }
        for number, order in enumerate(sequences, 1)
    ]


def is_plain_name(tool: str) -> bool:
    """Whether a policy may name the tool as it is: an agent can call tools that look like patterns, or like pages."""
    return _PLAIN.fullmatch(tool) is not None


def _follows(pair: tuple[str, str], found: dict[tuple[str, str], CallOrder]) -> bool:
    first, second = pair
    between = {right for left, right in found if left == first} & {left for left, right in found if right == second}
    # Two tools that are each other's predecessor would explain each other away; such a pair explains nothing.
    return any((middle, first) not in found and (second, middle) not in found for middle in between - {first, second})


def _first_calls(events: Iterable[Event]) -> list[list[str]]:
    """Return, for each session, its tools in the order in which they were first called."""
    orders: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for event in events:
        if isinstance(event, ToolCall):
            orders[event.session_id].setdefault(event.tool, None)
        elif isinstance(event, Turn):
            content = event.response.get("content")
            for block in content if isinstance(content, list) else ():
                if isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("name"), str):
                    orders[event.session_id].setdefault(block["name"], None)
    return [list(filter(_PLAIN.fullmatch, order)) for order in orders.values()]
