"""Collect the facts of sessions from events, reading them once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from stream_guard.judge.model import Event, Json, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.learning.facts import (
    USER,
    CallFacts,
    Facts,
    LearnedNames,
    Link,
    Said,
    SessionFacts,
    Sources,
    is_plain_key,
    parsed,
    scalars,
    texts_in,
)

_MOST_OPEN: Final = 200  # sessions whose texts are remembered at a time; recordings hold one after the other
_MOST_CALLS: Final = 2000  # of one session
_MOST_ARGUMENTS: Final = 30
_MOST_LINKS: Final = 6  # tools that looked up the same value
_MOST_VALUES: Final = 200  # of one session, by which its task is told
_LONGEST_WORD: Final = 32
_SHORTEST_VALUE: Final = 4
_SHORTEST_OPENING: Final = 40  # characters; what is shorter is a greeting, which begins sessions about anything


def collect(events: Iterable[Event]) -> Facts:
    """Return the facts of all sessions in the events."""
    collector = _Collector()
    for event in events:
        collector.add(event)
    return Facts(list(collector.sessions.values()), collector.names, list(collector.bits))


class _Lookup:
    """A call that succeeded, with what its result says."""

    __slots__ = ("argument", "by_value", "output", "states")

    def __init__(self, argument: str, output: dict[str, Json]) -> None:
        self.argument = argument
        self.output = output
        self.states = {path: value for path, value in output.items() if _is_word(value)}
        self.by_value: dict[tuple[type, Json], list[str]] = {}
        for path, value in output.items():
            self.by_value.setdefault((type(value), value), []).append(path)


class _SessionBeingRead:
    """What is remembered of a session while it is read."""

    __slots__ = ("announced", "facts", "is_whole", "lookups", "names", "open", "other", "said")

    def __init__(self, facts: SessionFacts, other: Said | None, *, is_whole: bool) -> None:
        self.facts = facts
        self.is_whole = is_whole  # False: what was said before is forgotten
        self.other = other  # what was said in another session
        self.said = Said()
        self.names: dict[str, str] = {}  # spellings of tools, by name
        self.open: dict[str, list[CallFacts]] = {}  # calls without a result, by id
        self.announced: dict[str, int] = {}  # calls that a response asked for, by id
        self.lookups: dict[str, dict[str, _Lookup]] = {}  # by value of an argument, then by tool


class _Collector:
    def __init__(self) -> None:
        self.sessions: dict[str, SessionFacts] = {}
        self.names = LearnedNames()
        self.bits: dict[str, int] = {}
        self._open: dict[str, _SessionBeingRead] = {}
        self._last: Said | None = None

    def add(self, event: Event) -> None:
        """Take note of one event."""
        session = self._open.get(event.session_id) or self._begin(event.session_id)
        if isinstance(event, ToolCall):
            if session.announced.get(event.call_id):
                session.announced[event.call_id] -= 1  # the response that asked for it was counted
            else:
                self._call(session, event.tool, event.args, event.call_id, event)
        elif isinstance(event, ToolResult):
            self._result(session, event)
        elif isinstance(event, UserMessage):
            if not session.facts.asked and len(event.text) >= _SHORTEST_OPENING:
                session.facts.opening = crc32(event.text.encode("utf-8", "replace"))
            session.facts.asked = True
            session.said.add(event.text, USER)
        elif isinstance(event, Turn):
            self._turn(session, event)

    def _begin(self, session_id: str) -> _SessionBeingRead:
        is_new = session_id not in self.sessions
        facts = self.sessions.setdefault(session_id, SessionFacts(session_id))
        session = self._open[session_id] = _SessionBeingRead(facts, self._last, is_whole=is_new)
        self._last = session.said
        if len(self._open) > _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        return session

    def _turn(self, session: _SessionBeingRead, turn: Turn) -> None:
        facts = session.facts
        facts.turns += 1
        usage = turn.response.get("usage")
        if isinstance(usage, dict):
            counted = [usage.get(name) for name in ("input_tokens", "output_tokens", "thinking_tokens")]
            tokens = [number for number in counted if type(number) is int]
            if tokens:
                facts.tokens = (facts.tokens or 0) + sum(tokens)
            if isinstance(cost := usage.get("cost_usd"), int | float):
                facts.cost = (facts.cost or 0.0) + cost
        content = turn.response.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("name"), str):
                call_id = str(block.get("id"))
                session.announced[call_id] = session.announced.get(call_id, 0) + 1
                self._call(session, block["name"], block.get("input"), call_id, turn)

    def _call(self, session: _SessionBeingRead, tool: str, args: Json, call_id: str, event: Event) -> None:
        name = self.names.name(tool, session.names)
        if not name or len(session.facts.calls) >= _MOST_CALLS:
            return
        given = scalars(args)
        call = CallFacts(name, event.agent, event.time, {path: _shortened(value) for path, value in given.items()})
        named = [key for key in args if is_plain_key(key)][:_MOST_ARGUMENTS] if isinstance(args, dict) else []
        if session.is_whole:
            call.origins = _origins(args, named, session.said)
            call.links = _links(name, given, session)
        if session.other is not None:
            call.chance = _origins(args, named, session.other)
        for value in given.values():
            if _names_something(value) and len(session.facts.values) < _MOST_VALUES:
                session.facts.values.add(crc32(value.encode("utf-8", "replace")))
        session.facts.calls.append(call)
        session.open.setdefault(call_id, []).append(call)

    def _result(self, session: _SessionBeingRead, result: ToolResult) -> None:
        waiting = session.open.get(result.call_id)
        if not waiting:
            return
        call = waiting.pop()  # the latest: ids are used again
        if result.status != "ok":
            call.failed = True
            return
        bit = self.bits.setdefault(call.tool, 2 << len(self.bits))
        session.said.add(result.output, bit)
        output = scalars(parsed(result.output))
        for path, value in call.args.items():
            if isinstance(value, str) and value:
                found = session.lookups.setdefault(value, {})
                if call.tool in found or len(found) < _MOST_LINKS:
                    found[call.tool] = _Lookup(path, output)
        session.facts.states |= {(call.tool, path, value) for path, value in output.items() if _is_word(value)}


def _origins(args: Json, named: Iterable[str], said: Said) -> dict[str, Sources]:
    found: dict[str, Sources] = {}
    for path in named:
        sources = {said.sources(text) for text in texts_in(args[path]) if text}
        if sources:
            found[path] = tuple(sources)
    return found


def _links(tool: str, given: dict[str, Json], session: _SessionBeingRead) -> list[Link]:
    links: list[Link] = []
    for argument, value in given.items():
        if not isinstance(value, str):
            continue
        for name, lookup in session.lookups.get(value, {}).items():
            if name == tool or len(links) >= _MOST_LINKS:
                continue
            equal = frozenset(
                (other, path)
                for other, held in given.items()
                if other != argument
                for path in lookup.by_value.get((type(held), held), ())
            )
            links.append(Link(name, argument, lookup.argument, equal, lookup.states))
    return links


def _names_something(value: Json) -> bool:
    """Whether a value tells one thing from all others of its sort: an id, an address, a number of a house."""
    return (
        isinstance(value, str)
        and len(value) >= _SHORTEST_VALUE
        and any(char.isdigit() or char == "@" for char in value)
    )


def _is_word(value: Json) -> bool:
    """Whether a value of a result names a state: pending, gold, true."""
    if not isinstance(value, str):
        return isinstance(value, bool)
    return 0 < len(value) <= _LONGEST_WORD and not any(char.isdigit() for char in value)


def _shortened(value: Json) -> Json:
    return value[:200] if isinstance(value, str) else value
