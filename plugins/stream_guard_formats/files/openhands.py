"""OpenHands' event streams: a run as one record, or a record for each event."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import SESSION_FIELDS
from stream_guard_formats.conversation import (
    MAX_ID,
    Conversation,
    ResultStatus,
    derived_session,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import number_in, object_at, seconds, text_at

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


# Events of OpenHands, read one by one: actions and observations, or the typed events of the second generation.


# Actions and observations of the framework itself: no model asked for them, and no tool answers.
_OWN: Final = frozenset(
    (
        *("message", "recall", "system", "null", "change_agent_state", "agent_state_changed", "condensation"),
        *("condensation_request", "initialize", "start", "pause", "resume", "stop", "loop_recovery", "user_rejected"),
    )
)
# Arguments that the framework adds to those of the model.
_ADDED: Final = ("thought", "hidden", "blocking", "confirmation_state", "impl_source", "security_risk", "is_confirmed")
_TYPED: Final = frozenset(
    (
        *("ActionEvent", "ObservationEvent", "AgentErrorEvent", "UserRejectObservation", "MessageEvent"),
        *("SystemPromptEvent", "ConversationStateUpdateEvent", "PauseEvent", "CondensationRequest", "Condensation"),
        *("CondensationSummaryEvent", "TokenEvent", "ConversationErrorEvent", "LLMCompletionLogEvent"),
    )
)
_RAISED: Final = "Traceback (most recent call last)"
_RUNNING: Final = -1.0  # the exit code of a command that has not ended


class OpenHandsEvent(NamedTuple):
    """What one event tells."""

    sort: Literal["user", "answer", "call", "result", "tools", ""]  # empty: nothing that an agent did
    text: str = ""
    number: str = ""  # its own id
    time: Json = None
    action: str = ""  # the id of the action that a result answers
    call_id: str = ""
    tool: str = ""
    args: Json = None
    status: ResultStatus = "ok"
    answer: str = ""  # the id of the model's answer that a call stands in
    response: dict[str, Json] = {}  # that answer
    tools: Json = None  # that the agent was given


def is_event(data: Json) -> bool:
    """Whether a parsed value is an event of either generation."""
    if not isinstance(data, dict):
        return False
    kind = data.get("kind")
    if isinstance(kind, str) and kind in _TYPED:
        return True
    if not ("source" in data or "cause" in data or "timestamp" in data):
        return False
    return (isinstance(data.get("action"), str) and isinstance(data.get("args"), dict)) or (
        isinstance(data.get("observation"), str) and ("content" in data or "extras" in data)
    )


def read_event(event: dict[str, Json]) -> OpenHandsEvent:
    """Return what an event tells."""
    if isinstance(event.get("kind"), str):
        return _read_typed(event)
    return _read_action(event) if isinstance(event.get("action"), str) else _read_observation(event)


def _read_action(event: dict[str, Json]) -> OpenHandsEvent:
    action, args = text_at(event, "action"), object_at(event, "args")
    number, time, source = _number(event), event.get("timestamp"), event.get("source")
    called = object_at(event, "tool_call_metadata")
    if action == "message" and not called:
        text = text_of(args.get("content")) or text_at(event, "message")
        sort: Literal["user", "answer", ""] = (
            "answer" if source == "agent" else "user" if source in ("user", None) else ""
        )
        return OpenHandsEvent(sort, text, number, time)
    if action == "system":
        return OpenHandsEvent("tools", tools=args.get("tools"))
    if not called and (action in _OWN or source not in ("agent", None)):
        return OpenHandsEvent("", number=number)
    response = object_at(called, "model_response")
    message = _message(response)
    call_id = identifier(called.get("tool_call_id"))
    written = _written(message.get("tool_calls"), call_id)
    return OpenHandsEvent(
        "call",
        text_of(message.get("content")) if message else text_of(args.get("thought")),
        number,
        time,
        call_id=call_id or number,
        tool=text_at(called, "function_name") or text_at(written, "name") or action,
        args=written["arguments"] if "arguments" in written else _own_arguments(args),
        answer=text_at(response, "id"),
        response=response,
    )


def _read_observation(event: dict[str, Json]) -> OpenHandsEvent:
    observed, extras = text_at(event, "observation"), object_at(event, "extras")
    called = object_at(event, "tool_call_metadata")
    if observed in _OWN and not called and observed != "user_rejected":
        return OpenHandsEvent("")
    text = text_of(event.get("content")) or text_at(event, "message")
    return OpenHandsEvent(
        "result",
        text,
        _number(event),
        event.get("timestamp"),
        action=identifier(event.get("cause")),
        call_id=identifier(called.get("tool_call_id")),
        tool=text_at(called, "function_name"),
        status="blocked" if observed == "user_rejected" else _status(observed, event, extras, text),
    )


def _status(observed: str, event: dict[str, Json], extras: dict[str, Json], text: str) -> ResultStatus:
    code = number_in(object_at(extras, "metadata").get("exit_code", extras.get("exit_code")))
    if code == _RUNNING:
        return "ok"  # it has not ended, and did not fail
    failed = (
        observed == "error"
        or bool(code)
        or event.get("success") is False
        or extras.get("error") not in (None, False, "")
        or text.startswith("ERROR:")
        or (observed == "run_ipython" and _RAISED in text)
    )
    return "error" if failed else "ok"


def _read_typed(event: dict[str, Json]) -> OpenHandsEvent:
    kind, number, time = event["kind"], _number(event), event.get("timestamp")
    call_id, tool = identifier(event.get("tool_call_id")), text_at(event, "tool_name")
    if kind == "MessageEvent":
        message = object_at(event, "llm_message")
        said = event.get("source", message.get("role"))
        return OpenHandsEvent(
            "user" if said == "user" else "answer" if said in ("agent", "assistant") else "",
            text_of(message.get("content")),
            number,
            time,
        )
    if kind == "SystemPromptEvent":
        return OpenHandsEvent("tools", tools=event.get("tools"))
    if kind == "ActionEvent":
        call = object_at(event, "tool_call")
        function = object_at(call, "function") or call
        done = {name: value for name, value in object_at(event, "action").items() if name != "kind"}
        return OpenHandsEvent(
            "call",
            text_of(event.get("thought")),
            number,
            time,
            call_id=call_id or identifier(call.get("id")) or number,
            tool=tool or text_at(function, "name"),
            args=function.get("arguments", done),
            answer=text_at(event, "llm_response_id"),
        )
    if kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        return _read_typed_result(event, kind)
    return OpenHandsEvent("")


def _read_typed_result(event: dict[str, Json], kind: str) -> OpenHandsEvent:
    observation = object_at(event, "observation")
    text = text_of(observation.get("content", observation.get("output")))
    code = number_in(object_at(observation, "metadata").get("exit_code", observation.get("exit_code")))
    failed = observation.get("is_error") is True or observation.get("error") not in (None, False, "")
    failed = failed or kind == "AgentErrorEvent" or code not in (None, 0.0, _RUNNING)
    return OpenHandsEvent(
        "result",
        text or text_at(event, "error", "rejection_reason") or text_at(observation, "error", "message"),
        _number(event),
        event.get("timestamp"),
        action=identifier(event.get("action_id")),
        call_id=identifier(event.get("tool_call_id")),
        tool=text_at(event, "tool_name"),
        status="blocked" if kind == "UserRejectObservation" else "error" if failed else "ok",
    )


def _number(event: dict[str, Json]) -> str:
    found = identifier(event.get("id"))
    return "" if found == "-1" else found  # not yet in a stream


def _message(response: dict[str, Json]) -> dict[str, Json]:
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return object_at(first, "message") if isinstance(first, dict) else {}


def _written(calls: Json, call_id: str) -> dict[str, Json]:
    """Return the name and the arguments of a call as the model wrote them, by its id."""
    found: Sequence[Json] = calls if isinstance(calls, list) else ()
    of_id = (call for call in found if isinstance(call, dict) and identifier(call.get("id")) == call_id)
    return object_at(next(of_id, {}), "function")


def _own_arguments(args: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in args.items() if name not in _ADDED and value is not None}
