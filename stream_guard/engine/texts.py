"""The texts of events, and an index that finds the rules with a pattern in a text in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard.engine.bound import BoundRule, Handler
from stream_guard.language.paths import Path, lacks_output
from stream_guard.language.patterns import TextSet
from stream_guard.model import Event, Json, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.rule import Where

PLACES: Final[dict[type[Event], Where]] = {
    Turn: "response",
    ToolCall: "tool_args",
    ToolResult: "tool_result",
    UserMessage: "user",
}


def text_of(event: Event) -> str:
    """Return the text of a message or a response, or every string in the arguments or the output of a tool."""
    # By the exact type: to tell that a struct is no instance of a class takes longer than the rest.
    if type(event) is Turn or type(event) is UserMessage:
        return event.text
    body = event.args if type(event) is ToolCall else event.output if type(event) is ToolResult else None
    return body if isinstance(body, str) else strings_of(body)


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


def strings_of(value: Json) -> str:
    """Join every string in a JSON value, object keys included."""
    found: list[str] = []
    waiting = [value]
    for item in waiting:  # grows while it is walked: a loop, because recursion has a limit
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            for key, entry in item.items():  # a loop: for the few entries that there are, quicker than to extend
                found.append(key)
                waiting.append(entry)
        elif isinstance(item, list):
            waiting.extend(item)
    return "\n".join(found)


def texts_at(event: Event, path: Path | None) -> str:
    """Return the text of the event, or the string at a path in it; empty where there is no string."""
    if path is None:
        return text_of(event)
    value = path.find(event)
    return value if type(value) is str else ""


def has_text(bound: BoundRule, event: Event) -> bool:
    """Whether the event contains a text that the rule waits for; True for a rule that waits for none."""
    place = PLACES.get(type(event)) if bound.texts else None
    waiting = bound.texts.get(place) if place is not None else None
    return waiting is None or any(regex.search(texts_at(event, path)) is not None for path, regex in waiting)


class TextIndex:
    """Finds the rules that wait for a pattern in a text, in one pass over each text."""

    __slots__ = ("_sets", "entries")

    def __init__(self, entries: Sequence[tuple[BoundRule, Handler]], where: Where) -> None:
        self.entries = tuple(entries)
        waiting: dict[Path | None, list[tuple[str, tuple[BoundRule, Handler]]]] = {}
        for bound, handle in entries:
            for path, regex in bound.texts[where]:
                waiting.setdefault(path, []).append((regex.pattern, (bound, handle)))
        self._sets = tuple(
            (path, TextSet([pattern for pattern, _ in patterns]), [owner for _, owner in patterns])
            for path, patterns in waiting.items()
        )

    def waiting_for(self, event: Event) -> tuple[tuple[BoundRule, Handler], ...]:
        """Return the rules that wait for a text which the event has, or may have: all, where its text is left out."""
        return self.entries if lacks_text(event) else self.search(event)

    def search(self, event: Event) -> tuple[tuple[BoundRule, Handler], ...]:
        """Return the rules with a pattern that occurs, once each, in policy order."""
        found: dict[int, tuple[BoundRule, Handler]] | None = None
        for path, patterns, owners in self._sets:
            text = text_of(event) if path is None else texts_at(event, path)
            if text or patterns.match_nothing:
                for number in patterns.search(text):
                    owner = owners[number]
                    if found is None:
                        found = {}
                    found[owner[0].number] = owner
        return () if found is None else tuple([found[number] for number in sorted(found)])
