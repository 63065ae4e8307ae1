"""From records to events: every record becomes events or a dead letter, and this is the only place where it does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import re2
import xxhash
from msgspec.structs import replace

from stream_guard.errors import DecodeError
from stream_guard.judge.model import (
    RESERVED,
    Event,
    GateDecision,
    SessionEnd,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
    check_session_id,
)
from stream_guard.judge.ports import DecoderMemory
from stream_guard.ports import Decoder, Memory, Record
from stream_guard.storage.stores import MemoryStore


class DeadLetterSink(Protocol):
    """Takes the records that cannot become events."""

    def add(self, record: Record, reason: str) -> None:
        """Keep the record, or its head, with the reason and its place."""


def with_memory(decoder: Decoder, memory: Memory | None = None) -> Decoder:
    """Return the decoder; one that waits for records which name its sessions gets memory for what waits."""
    if not decoder.waits:
        return decoder
    return decoder.remember(memory if memory is not None else DecoderMemory(MemoryStore()))


class EventReader:
    """Decodes records. A record that cannot be decoded becomes a dead letter with the reason.

    ``memory`` is for events that wait for the record which names their session.
    """

    def __init__(self, decoder: Decoder, dead_letters: DeadLetterSink, memory: Memory | None = None) -> None:
        self._decoder = with_memory(decoder, memory)
        self._dead_letters = dead_letters

    def read(self, record: Record) -> list[Event]:
        """Return the record's events. Of a dead letter that is only a tool call that it tells of, if it does.

        Events of a letter that came back have ids, by which they are redeliveries when it comes back once more.
        """
        letter = letter_of(record) if record.headers else ""
        try:
            decoded = self._decoder.decode(record)
            events: list[Event] = decoded if type(decoded) is list else list(decoded)
            is_long = len(record.value) > MAX_NAME  # in a shorter record no name is too long
            for event in events:
                if is_long:
                    check_names(event)
                session_id: str = event.session_id
                if not session_id or session_id[0] == RESERVED:
                    check_session_id(session_id)
        except DecodeError as error:
            self._dead_letters.add(record, str(error))
            lost = None if letter else lost_call(record, str(error))  # of a letter that came back, rules were told
            return [] if lost is None or not self._decoder.keeps(lost) else [lost]
        return named_after(letter, events) if letter else events

    def read_all(self, records: Iterable[Record | None]) -> Iterator[Event]:
        """Yield the events of many records. Events that wait for a later record come from ``finish``."""
        for record in records:
            if record is not None:
                yield from self.read(record)

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the events that have waited long enough after so many seconds without a record."""
        return self._decoder.elapse(seconds)

    def finish(self) -> Sequence[Event]:
        """Return every event that still waits: no record will follow."""
        return self._decoder.finish()

    def advice(self) -> Sequence[str]:
        """Return what can be done about inputs that could not be read."""
        return self._decoder.advice()


# Names and ids that are too long: they are kept in states, alerts and the history, which nobody may fill with them.


MAX_NAME: Final = 1000  # characters
_NAMES: Final = ("session_id", "event_id", "agent", "run_id", "trace_id", "part", "tool", "call_id")
# By type of event: to ask for a field that is not there takes longer than all the others.
_FIELDS: Final = {
    kind: tuple([name for name in _NAMES if name in kind.__struct_fields__])
    for kind in (UserMessage, Turn, ToolCall, GateDecision, ToolResult, SessionEnd)
}
_MOST_ANCESTORS: Final = 100


def check_names(event: Event) -> None:
    """Raise DecodeError for an event with a name or an id that is too long to be kept."""
    for field in _FIELDS[type(event)]:
        if len(name := getattr(event, field)) > MAX_NAME:
            raise _too_long(field, name)
    if len(event.agent_path) > _MOST_ANCESTORS:
        raise DecodeError(f"agent_path has {len(event.agent_path)} names; {_MOST_ANCESTORS} are read")
    for name in (*event.agent_path, *event.labels):
        if len(name) > MAX_NAME:
            raise _too_long("a name in agent_path or labels", name)


def _too_long(field: str, name: str) -> DecodeError:
    return DecodeError(f"{field} has {len(name)} characters; a name has {MAX_NAME} at most")


# Tool calls in records that cannot be decoded: an attempt stays an attempt where its session can still be told.


_HEAD: Final = 1_000_000  # characters of a record that are searched
_MAX_ID: Final = 512
_TEXT: Final = r'"((?:[^"\\]|\\.)*)"'
_CALL: Final = re2.compile(r'"(?:tool_calls?|tool_use|function_call)"')
_SESSION: Final = re2.compile(rf'"(?:session_id|sessionId|conversation_id|thread_id)"\s*:\s*{_TEXT}')
_TOOL: Final = re2.compile(rf'"(?:tool|tool_name)"\s*:\s*{_TEXT}')


def lost_call(record: Record, reason: str) -> ToolCall | None:
    """Return the attempt that a record tells of although it cannot be decoded; None where there is none to tell of.

    Its arguments and its time are not known. The session that is named last counts, as for every reader of JSON.
    """
    text = record.value[:_HEAD].decode("utf-8", "replace")
    if _CALL.search(text) is None:
        return None
    session_id = _last(_SESSION, text)
    if not session_id or session_id[0] == "\0" or len(session_id) > _MAX_ID:
        return None
    return ToolCall(
        session_id=session_id,
        event_id=f"~{xxhash.xxh3_64_hexdigest(record.value.strip())}",
        tool=_last(_TOOL, text)[:_MAX_ID],
        captured=False,
        contested=f"its record cannot be decoded: {reason}",
    )


def _last(pattern: Any, text: str) -> str:
    found = [match.group(1) for match in pattern.finditer(text)]
    try:
        written = json.loads(f'"{found[-1]}"') if found else ""
    except ValueError:
        return ""
    return str(written).encode("utf-8", "replace").decode()


# Dead letters that come back: how a record says which letter it was, and what its events are called.


REDRIVEN: Final = "stream_guard_redriven"  # the id of the letter


def letter_of(record: Record) -> str:
    """Return the id of the letter that a record was; empty for one that comes for the first time."""
    for name, value in record.headers:
        if name == REDRIVEN:
            return value.decode("utf-8", "replace")
    return ""


def named_after(letter: str, events: Sequence[Event]) -> list[Event]:
    """Return the events of a letter that came back, each with an id: sent back once more, they are redeliveries."""
    return [
        replace(event, event_id=f"letter-{letter}-{number}") if event.event_id[:1] in ("", "~") else event
        for number, event in enumerate(events)
    ]
