"""The content of an event as rules need it: its texts, and what it leaves out.

A rule is unevaluable only where its answer hangs on what is missing. A rule about another tool is not asked at all.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from stream_guard.judge.arguments import looks_like_json, payload_texts
from stream_guard.judge.bound import BoundRule
from stream_guard.judge.conditions import Leaf
from stream_guard.judge.model import Event, GateDecision, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.paths import MISSING, Path, lacks_output
from stream_guard.judge.rule import Where

PLACES: Final[dict[type[Event], Where]] = {
    Turn: "response",
    ToolCall: "tool_args",
    ToolResult: "tool_result",
    UserMessage: "user",
}


def strings_of(event: Event) -> list[str]:
    """Return the text of a message or a response, or each string in the arguments or the output of a tool.

    Every string is searched by itself: two that stand beside each other say nothing together.
    """
    # By the exact type: to tell that a struct is no instance of a class takes longer than the rest.
    if type(event) is Turn or type(event) is UserMessage:
        return [event.text]
    body = event.args if type(event) is ToolCall else event.output if type(event) is ToolResult else None
    return [body] if isinstance(body, str) else payload_texts(body)


def lacks_content(event: Event) -> bool:
    """Whether a turn comes without the content of its response. A response that failed has none."""
    if type(event) is not Turn or "content" in event.response:
        return False
    return event.response.get("error") is None and event.response.get("stop_reason") != "error"


def lacks_text(event: Event) -> bool:
    """Whether a turn comes without content, a call without arguments, or a result without output."""
    if type(event) is ToolCall:
        return event.args is None
    return lacks_content(event) if type(event) is Turn else lacks_output(event)


def strings_at(event: Event, path: Path | None) -> list[str]:
    """Return the strings of the event, or the one at a path in it; an empty one where there is none."""
    if path is None:
        return strings_of(event)
    value = path.find(event)
    return [value if type(value) is str else ""]


def has_text(bound: BoundRule, event: Event) -> bool:
    """Whether the event contains a text that the rule waits for; True for a rule that waits for none."""
    place = PLACES.get(type(event)) if bound.texts else None
    waiting = bound.texts.get(place) if place is not None else None
    return waiting is None or any(regex.occurs_in(text) for path, regex in waiting for text in strings_at(event, path))


# What an event lacked for a rule that could not judge it.
NO_CONTENT: Final = "content"
NO_CLOCK: Final = "a time"
NO_TEXT: Final = "the arguments or the output that it looks into"
NO_TURN: Final = "a turn that its condition could read"
NO_RESPONSES: Final = "the responses of the model: only calls were told"
NO_FIELD: Final = "a field that its condition reads"
NO_KEY: Final = "a value for its key"
NOT_ALL_JUDGED: Final = "an earlier event that it could judge, so its end is open"
UNREADABLE: Final = "arguments that can be read"
TAKEN_ALIKE: Final = "arguments that every executor takes alike: numbers and flags as such, not as texts"
UNKNOWN_AGENT: Final = "an agent that the policy knows"
NO_ANSWER: Final = "the answer of a judge"
FORGOTTEN: Final = "what it had to forget: more came than it remembers"


def is_unreadable(event: Event) -> bool:
    """Whether the event's arguments are a text that is not JSON."""
    # By the exact type: to tell that a struct is no instance of a class takes longer than the rest.
    if type(event) is ToolCall or type(event) is ToolResult or type(event) is GateDecision:
        return type(event.args) is str
    return False


def judge_gate(bound: BoundRule, event: Event, turns: int, memory: Set[int]) -> bool | None:
    """Return whether the gate of a rule is open to an event that leaves something out; None: that cannot be known.

    ``turns`` and ``memory`` are those of the event's session.
    """
    return bound.judge_gate(event, memory, lambda leaf: _leaf_lacks(leaf, event, turns, memory) != "")


def may_be_asked(bound: BoundRule, event: Event, turns: int, memory: Set[int]) -> bool:
    """Whether the gate of a rule may be open to an event of a session whose memory of messages and labels is lost."""

    def is_unknown(leaf: Leaf) -> bool:
        if leaf.path.when == "user" or (leaf.path.text in bound.set_labels and leaf.path.find(event) is MISSING):
            return True
        return _leaf_lacks(leaf, event, turns, memory) != ""

    return bound.judge_gate(event, memory, is_unknown) is not False


def may_have_missed(bound: BoundRule, event: Event) -> bool:
    """Whether a rule that found nothing may have missed something in arguments that are a text.

    Text that does not even begin like JSON is judged as it is by rules that look at the whole text.
    """
    if not is_unreadable(event) or not bound.reads_content:
        return False
    looks_at_text = [path for path, _ in bound.texts.get("tool_args", ())]
    return not looks_at_text or any(looks_at_text) or looks_like_json(event.args)  # type: ignore[union-attr]  # see is_unreadable


def rule_lacks(bound: BoundRule, event: Event) -> str:
    """Return what the rule's handlers need and the event does not have."""
    if not event.captured and bound.reads_content:
        return NO_CONTENT
    return NO_CLOCK if bound.needs_clock and event.time is None else ""


def gate_lacks(bound: BoundRule, event: Event, turns: int, memory: Set[int]) -> str:
    """Return what the gate needs to be known for certain."""
    found = [lacks for leaf in bound.gate_leaves if (lacks := _leaf_lacks(leaf, event, turns, memory))]
    return found[0] if found else UNKNOWN_AGENT


def _leaf_lacks(leaf: Leaf, event: Event, turns: int, memory: Set[int]) -> str:
    """Return what a condition needs and neither the event nor the memory of its session has."""
    path = leaf.path
    if path.when == "turn" and turns == 0:
        return NO_TURN
    if path.reads_content and not event.captured:
        return NO_CONTENT
    if path.text.startswith("tool.args") and is_unreadable(event):
        return UNREADABLE
    return NO_FIELD if leaf.is_unknown(event, memory) else ""
