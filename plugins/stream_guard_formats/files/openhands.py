"""OpenHands' event streams: a run as one record, or a record for each event."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.transcripts import SESSION_FIELDS
from stream_guard_formats.conversation import MAX_ID, Conversation, derived_session, label, text_block, tool_use
from stream_guard_formats.files.openhands_events import OpenHandsEvent, is_event, read_event
from stream_guard_formats.reading import object_at, seconds, text_at

_PLACES: Final = ("events", "history", "trajectory")
_NAMES: Final = ("name", "instance_id", "task_id", "id")
_MOST_STREAMS: Final = 1024  # that are read event by event at the same time
_MOST_CALLS: Final = 4096  # of one stream, that are remembered


class _Progress:
    """What later events of a stream refer to."""

    __slots__ = ("answers", "calls", "model", "tools")

    def __init__(self) -> None:
        self.calls: OrderedDict[str, str] = OrderedDict()  # the ids of calls, by those of their actions; empty: no call
        self.answers: OrderedDict[str, str] = OrderedDict()  # the first action of each answer of the model
        self.tools: Json = None
        self.model = ""

    def forget_oldest(self) -> None:
        for remembered in (self.calls, self.answers):
            while len(remembered) > _MOST_CALLS:
                remembered.popitem(last=False)


class OpenHandsDecoder(JsonDecoder):
    """Reads ``{"events": [...]}``, ``{"history": [...]}``, a list of events, or one event to a record.

    The first action of a model's answer is its turn, further ones are calls of that turn. An observation answers the
    action that it names as its cause. What the framework does on its own account is no event.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a run or an event, by the shape of its events."""
        if is_event(data):
            return 0.9
        return 0.95 if any(map(is_event, _events_in(data)[:8])) else 0.0

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._streams: OrderedDict[str, _Progress] = OrderedDict()

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list holds the events of one run, and not runs."""
        return any(map(is_event, _flat(items)[:8]))

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of a run in order, with its end, or those of one event of OpenHands'."""
        if is_event(data):
            session_id = _session_of(record)
            progress = self._streams.setdefault(session_id, _Progress())
            while len(self._streams) > _MOST_STREAMS:
                self._streams.popitem(last=False)
            conversation = Conversation(session_id)
            self._add(conversation, progress, read_event(data))
            progress.forget_oldest()
            return conversation.events
        events = _events_in(data)
        if not events and not isinstance(data, list | dict):
            raise DecodeError("a run of OpenHands is a list of events, or an object that has one")
        run = data if isinstance(data, dict) else {}
        name = text_at(run, *_NAMES)
        session_id = text_at(run, *SESSION_FIELDS)[:MAX_ID] or derived_session(record.value, name)
        conversation = Conversation(session_id, labels={"scenario": label(name)} if name else None)
        progress = _Progress()
        for event in events:
            if isinstance(event, dict):
                self._add(conversation, progress, read_event(event))
        if conversation.events:
            conversation.end(conversation.events[-1].time)
        return conversation.events

    def _add(self, conversation: Conversation, progress: _Progress, event: OpenHandsEvent) -> None:
        header: dict[str, Any] = {"time": seconds(event.time), "event_id": event.number}
        identity = [event.sort, event.text, event.time, event.call_id]
        if event.sort == "user":
            conversation.user(identity, event.text, **header)
        elif event.sort == "answer":
            conversation.turn(identity, [text_block(event.text)] if event.text else [], **header)
        elif event.sort == "tools":
            progress.tools = event.tools
        elif not event.sort and event.number:
            progress.calls[event.number] = ""  # what answers it is no result of a call
        elif event.sort == "call":
            self._call(conversation, progress, event, identity, header)
        elif event.sort == "result":
            known = event.action and event.action in progress.calls
            call_id = progress.calls[event.action] if known else event.call_id or event.action
            if call_id:
                conversation.result(identity, call_id, event.text, status=event.status, tool=event.tool, **header)

    def _call(
        self,
        conversation: Conversation,
        progress: _Progress,
        event: OpenHandsEvent,
        identity: Json,
        header: dict[str, Any],
    ) -> None:
        block = tool_use(event.call_id, event.tool, event.args, strict_keys=self.strict_keys)
        if event.number:
            progress.calls[event.number] = block["id"]
        if event.answer and progress.answers.setdefault(event.answer, event.number) != event.number:
            conversation.call(identity, block, **header)
            return
        if model := text_at(event.response, "model"):
            header["labels"] = conversation.labels | {"model": label(model)}
        if isinstance(progress.tools, list) and progress.tools:
            header["request"] = {"tools": progress.tools}
        content: list[Json] = [text_block(event.text)] if event.text else []
        extra = {"usage": event.response.get("usage"), "stop_reason": _stop_reason(event.response)}
        conversation.turn(identity, [*content, block], extra=extra, **header)


def _stop_reason(response: dict[str, Json]) -> Json:
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first.get("finish_reason") if isinstance(first, dict) else None


def _events_in(data: Json) -> list[Json]:
    """Return the events of a run, at one of the places where they stand."""
    if isinstance(data, list):
        return _flat(data)
    if not isinstance(data, dict):
        return []
    holders = (data, object_at(data, "data"))
    places = (holder[place] for holder in holders for place in _PLACES if isinstance(holder.get(place), list))
    return next((found for place in places if (found := _flat(place))), [])


def _flat(items: Sequence[Json]) -> list[Json]:
    """Return the events of a list; older runs have them in pairs of an action and its observation."""
    if items and isinstance(items[0], list):
        return [event for pair in items if isinstance(pair, list) for event in pair]
    return list(items)


def _session_of(record: Record) -> str:
    """Return the session of an event in a record of its own: the folder of its stream, or its file."""
    path = PurePath(record.origin)
    if path.parent.name == "events" and path.parent.parent.name:
        return path.parent.parent.name[:MAX_ID]
    return derived_session(record.key or record.origin.encode("utf-8", "surrogatepass"), path.stem)
