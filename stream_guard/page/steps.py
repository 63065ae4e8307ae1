"""Events of a session as they are shown: on its timeline, and beside what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from stream_guard.explaining.timeline import StateChange
from stream_guard.history import kept_events
from stream_guard.history.alert_rows import NotedAlert
from stream_guard.history.database import Database
from stream_guard.history.kept_events import KeptEvent, KeptSession
from stream_guard.judge.model import Json

_BEFORE: Final = 4  # events that are shown before one, where it is shown without its session
_BACK: Final = 60  # events in which an attempt is looked for


class ShownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a timeline, as it is shown."""

    number: int
    kind: str
    id: str = ""
    time: float | None = None
    offset: float | None = None  # seconds since the session began
    texts: tuple[str, ...] = ()
    tool: str = ""
    tools: tuple[str, ...] = ()  # that a turn asks for
    value: Json = None  # arguments or output
    word: str = ""  # status, action or reason
    rules: tuple[str, ...] = ()
    agent: str = ""
    findings: tuple[NotedAlert, ...] = ()
    changes: tuple[StateChange, ...] = ()  # of rules' states


def step_of(
    kept: KeptEvent,
    session: KeptSession,
    findings: Sequence[NotedAlert] = (),
    changes: tuple[StateChange, ...] = (),
) -> ShownEvent:
    """Return an event as it is shown."""
    event = kept.event
    time, kind = event.get("time"), str(event.get("kind", ""))
    response = event.get("response")
    texts, tools = _content(response) if isinstance(response, dict) else ((), ())
    if kind == "user_message":
        texts = (str(event.get("text", "")),)
    value = event.get("output") if kind == "tool_result" else event.get("args")
    return ShownEvent(
        number=kept.number,
        kind=kind,
        id=str(event.get("event_id", "")),
        time=time,
        offset=time - session.first if time is not None and session.first is not None else None,
        texts=texts,
        tool=str(event.get("tool", "")),
        tools=tools,
        value=None if kind == "decision" else value,
        word=str(event.get("status") or event.get("action") or event.get("reason") or ""),
        rules=tuple(map(str, event.get("rule_ids", ()))),
        agent=str(event.get("agent", "")),
        findings=tuple(findings),
        changes=changes,
    )


def place_of(database: Database, session_id: str, event_id: str) -> int | None:
    """Return the number of an event in its session; one that came out of another, as a call in a turn, stands there."""
    return places_of(database, session_id, [event_id]).get(event_id)


def places_of(database: Database, session_id: str, event_ids: Sequence[str]) -> dict[str, int]:
    """Return by their ids the numbers at which events stand; those that are not kept are left out."""
    parents = {event_id: event_id.rpartition("/")[0] for event_id in event_ids if event_id}
    numbers = kept_events.numbers_of(database, session_id, {*parents, *filter(None, parents.values())})
    stand = {own: numbers.get(own) or numbers.get(parent) for own, parent in parents.items()}
    return {event_id: place for event_id, place in stand.items() if place}


def steps_to(database: Database, session: KeptSession, event_id: str) -> list[ShownEvent]:
    """Return an event and what came right before it, or nothing where it is not kept."""
    number = place_of(database, session.id, event_id)
    if number is None:
        return []
    begin = max(0, number - _BEFORE - 1)
    kept = kept_events.events_of(database, session.id, begin, number - begin)
    return [step_of(one, session) for one in kept]


def steps_before_call(database: Database, session: KeptSession, call_id: str) -> list[ShownEvent]:
    """Return what came right before a recent attempt; nothing where the attempt is not among the latest events."""
    kept = kept_events.events_of(database, session.id, max(0, session.events - _BACK), _BACK)
    calls = [at for at, one in enumerate(kept) if one.event.get("call_id") == call_id != ""]
    return [step_of(one, session) for one in kept[max(0, calls[0] - _BEFORE) : calls[0]]] if calls else []


def _content(response: dict[str, Json]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the texts of a model's answer, and the tools that it asks for."""
    content = response.get("content")
    if isinstance(content, str):
        return (content,), ()
    blocks: Iterable[Json] = content if isinstance(content, list) else ()
    texts, tools = [], []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            tools.append(str(block.get("name", "")))
        elif isinstance(block, dict):
            texts.append(str(block.get("text") or block.get("thinking") or ""))
        else:
            texts.append(str(block))
    return tuple(text for text in texts if text), tuple(tools)
