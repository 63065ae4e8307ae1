"""The texts of events, and an index that finds the rules with a pattern in a text in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from stream_guard.judge.arguments import payload_texts
from stream_guard.judge.bound import BoundRule, Handler
from stream_guard.judge.model import Event, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.paths import Path, lacks_output
from stream_guard.judge.patterns import TextSet
from stream_guard.judge.rule import Where

Entry: TypeAlias = tuple[BoundRule, Handler]

PLACES: Final[dict[type[Event], Where]] = {
    Turn: "response",
    ToolCall: "tool_args",
    ToolResult: "tool_result",
    UserMessage: "user",
}
# What makes a pattern depend on where a string begins or ends. `[^a]` has such a sign too, which only costs time.
_EDGES: Final = ("^", "$", "\\A", "\\z")


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


class _Sought:
    """Patterns that are looked for in the same strings, and the rules that wait for them."""

    __slots__ = ("_joins", "_owners", "_patterns", "path")

    def __init__(self, path: Path | None, waiting: Sequence[tuple[str, Entry]], *, joins: bool) -> None:
        self.path = path
        self._patterns = TextSet([pattern for pattern, _ in waiting])
        self._owners = [owner for _, owner in waiting]
        self._joins = joins  # no pattern depends on where a string ends, so what none of all has, none has

    def find(self, strings: Sequence[str]) -> list[Entry]:
        """Return the rules with a pattern that occurs in one of the strings; one that occurs in two is there twice."""
        if len(strings) > 1 and self._joins and not self._patterns.search("\n".join(strings)):
            return []
        texts = strings if self._patterns.match_nothing else filter(None, strings)
        return [self._owners[number] for text in texts for number in self._patterns.search(text)]


class TextIndex:
    """Finds the rules that wait for a pattern in a text, in one pass over each text."""

    __slots__ = ("_sought", "entries")

    def __init__(self, entries: Sequence[Entry], where: Where) -> None:
        self.entries = tuple(entries)
        waiting: dict[tuple[Path | None, bool], list[tuple[str, Entry]]] = {}
        for bound, handle in entries:
            for path, regex in bound.texts[where]:
                is_one = path is not None or where in ("response", "user")
                joins = is_one or not any(sign in regex.pattern for sign in _EDGES)
                waiting.setdefault((path, joins), []).append((regex.pattern, (bound, handle)))
        self._sought = tuple(_Sought(path, patterns, joins=joins) for (path, joins), patterns in waiting.items())

    def waiting_for(self, event: Event) -> tuple[Entry, ...]:
        """Return the rules that wait for a text which the event has, or may have: all, where its text is left out."""
        return self.entries if lacks_text(event) else self.search(event)

    def search(self, event: Event) -> tuple[Entry, ...]:
        """Return the rules with a pattern that occurs, once each, in policy order."""
        found: dict[int, Entry] | None = None
        whole: list[str] | None = None
        for sought in self._sought:
            if sought.path is None and whole is None:
                whole = strings_of(event)
            strings = whole if sought.path is None and whole is not None else strings_at(event, sought.path)
            for owner in sought.find(strings):
                if found is None:
                    found = {}
                found[owner[0].number] = owner
        return () if found is None else tuple([found[number] for number in sorted(found)])
