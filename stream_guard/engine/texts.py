"""The texts rules look into, and one pass over a text for all rules that wait for a pattern in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard.engine.bound import Bound, Handler
from stream_guard.model import Event, Json, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.patterns import TextSet
from stream_guard.rule import Where

PLACES: Final[dict[type[Event], Where]] = {
    Turn: "response",
    ToolCall: "tool_args",
    ToolResult: "tool_result",
    UserMessage: "user",
}


def text_of(event: Event) -> str:
    """Return what a text rule sees of the event: what was said, or every string in the payload."""
    if isinstance(event, Turn | UserMessage):
        return event.text
    if isinstance(event, ToolCall):
        return event.args if isinstance(event.args, str) else strings_of(event.args)
    if isinstance(event, ToolResult):
        return event.output if isinstance(event.output, str) else strings_of(event.output)
    return ""


def strings_of(value: Json) -> str:
    """Join every string in a JSON value, keys too: what hides in a key is said as well."""
    found: list[str] = []
    waiting = [value]
    for item in waiting:  # grows while it is walked: no recursion, so depth cannot hurt
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            found.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return "\n".join(found)


class TextIndex:
    """Finds, in one pass, the rules that wait for something in a text."""

    __slots__ = ("_owners", "_set", "entries")

    def __init__(self, entries: Sequence[tuple[Bound, Handler]], where: Where) -> None:
        self.entries = tuple(entries)
        patterns: list[str] = []
        self._owners: list[tuple[Bound, Handler]] = []
        for bound, handle in entries:
            for regex in bound.texts[where]:
                patterns.append(regex.pattern)
                self._owners.append((bound, handle))
        self._set = TextSet(patterns)

    def search(self, text: str) -> list[tuple[Bound, Handler]]:
        """Return the rules with a pattern that occurs, once each, in policy order."""
        numbers = self._set.search(text)
        if not numbers:
            return []
        owners = {self._owners[number][0].number: self._owners[number] for number in numbers}
        return [owners[number] for number in sorted(owners)]
