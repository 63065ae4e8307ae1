"""Events of OpenHands, read one by one: actions and observations, or the typed events of the second generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from stream_guard import Json
from stream_guard_formats.conversation import ResultStatus, identifier, text_of
from stream_guard_formats.reading import number_in, object_at, text_at

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
