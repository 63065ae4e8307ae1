"""One prompt under one scenario while it runs: it applies the fault plan and records every event.

``ACTIVE_RUN`` is where wrapped tools and proxies find the scenario run of this process.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock, Thread, current_thread
from typing import Any, Final
from weakref import WeakSet

import msgspec

from stream_guard import Event, Json, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard_contract.completions import Completion, to_response
from stream_guard_contract.faults import (
    ErrorReply,
    FaultPlan,
    InjectedText,
    TriggeredModelFault,
    TriggeredToolFault,
    distort,
    error_reply,
    into_messages,
    into_text,
    llm_delay,
)
from stream_guard_contract.recording import (
    ANSWER,
    FAULT,
    FAULT_CATEGORIES,
    MODEL,
    ROLE,
    TIMEOUT,
    TRUE,
    WATCHED,
    FaultId,
    clean,
    is_storable,
    storable,
    write_faults,
)

_ALL_WATCHED: Final = ",".join(FAULT_CATEGORIES)
UNAWAITED: Final = "the agent did not wait for the answer"
MOST_EVENTS: Final = 10_000  # of one session: an agent that never stops calling must not fill the memory


class OpenToolCall(msgspec.Struct):
    """A call of a tool that has no result yet, and the fault and texts it meets."""

    call_id: str
    tool: str
    began: float
    triggered: TriggeredToolFault | None
    injected: list[InjectedText]


class OpenModelCall(msgspec.Struct):
    """A call of the model that has no answer yet: its request, and the fault it meets."""

    request: dict[str, Json]
    began: float
    triggered: TriggeredModelFault | None
    attacks: list[FaultId]  # that injected a text into the request


class ScenarioRun:
    """Records one session: one prompt under one scenario. Thread-safe.

    Events that arrive after the end are not recorded, such as the result of a tool after the agent timed out.
    """

    def __init__(self, session_id: str, labels: Mapping[str, str], fault_plan: FaultPlan) -> None:
        self.session_id = session_id
        self._fault_plan = fault_plan
        self._lock = Lock()
        self._session_labels = {**labels, WATCHED: _ALL_WATCHED}  # written on the first event
        self._events: list[Event] = []
        self._tool_calls: dict[str, OpenToolCall] = {}
        self._model_calls: dict[int, OpenModelCall] = {}
        self._announced: list[tuple[str, str]] = []  # tool and call id of calls the model asked for
        self._calls = 0
        self._dropped = 0
        self._ended = False
        self._time = 0.0

    def begin(self, prompt: str) -> str:
        """Record the prompt, and return it with the texts that attacks inject."""
        with self._lock:
            injected = self._fault_plan.injected_texts("prompt")
            for _fault_id, text, strategy in injected:
                prompt = into_text(prompt, text, strategy, first=True)
            met = [item.fault_id for item in injected]
            self._add(UserMessage, met, self._session_labels, text=clean(prompt))
        return prompt

    def begin_tool_call(self, tool: str, args: Any, url: str = "") -> OpenToolCall:
        """Record an attempt, and return it with the fault it meets."""
        with self._lock:
            triggered = self._fault_plan.next_tool_fault(tool, url)
            # An answer that never comes, or is no answer, carries no attack.
            has_answer = triggered is None or triggered.fault.mode == "slow"
            injected = self._fault_plan.injected_texts("tool") if has_answer else []
            call = OpenToolCall(self._call_id(tool), tool, time.perf_counter(), triggered, injected)
            if not self._ended:
                self._tool_calls[call.call_id] = call
            self._add(ToolCall, (), tool=clean(tool), call_id=call.call_id, args=storable(args))
        return call

    def end_tool_call(
        self, call: OpenToolCall, output: Any, met: Sequence[FaultId] = (), *, failed: bool = False
    ) -> None:
        """Record the result that the agent got, and the faults that changed it."""
        with self._lock:
            if self._tool_calls.pop(call.call_id, None) is None:
                return
            latency_ms = (time.perf_counter() - call.began) * 1000
            self._add(
                ToolResult,
                met,
                tool=clean(call.tool),
                call_id=call.call_id,
                status="error" if failed else "ok",
                output=storable(output),
                latency_ms=latency_ms,
            )

    def begin_model_call(self, request: Mapping[str, Json]) -> OpenModelCall:
        """Return the call with the request as the model gets it, and the fault it meets."""
        with self._lock:
            messages, attacks = inject(request.get("messages"), self._fault_plan.injected_texts("model"))
            triggered = self._fault_plan.next_model_fault()
            call = OpenModelCall({**request, "messages": messages}, time.perf_counter(), triggered, attacks)
            if not self._ended:
                self._model_calls[id(call)] = call
            return call

    def end_model_call(self, call: OpenModelCall, completion: Completion | str, met: Sequence[FaultId] = ()) -> None:
        """Record a turn of the model: its request, and its answer; a text is the reason why there is none."""
        with self._lock:
            if self._model_calls.pop(id(call), None) is None:
                return
            latency_ms = (time.perf_counter() - call.began) * 1000
            if isinstance(completion, str):
                response = _failed(completion, latency_ms)
            else:
                for tool_call in completion.calls:
                    tool_call.id = tool_call.id or self._fresh_id()
                    self._announced.append((tool_call.name, tool_call.id))
                response = to_response(completion, latency_ms)
                # Without calls it is made here, and is JSON; arguments of calls can be numbers that no reader takes.
                if completion.calls or not is_storable(response):
                    response = _stored_response(response)
            stored_request = _stored_request(call.request)
            self._add(Turn, [*call.attacks, *met], {ROLE: MODEL}, request=stored_request, response=response)

    def end(self, text: str, latency_ms: float, error: str = "", *, is_overdue: bool = False) -> list[Event]:
        """Record the agent's answer, or why there is none, and return the events of the session."""
        self._end_open_calls()
        with self._lock:
            if self._dropped and not error:
                error = f"more than {MOST_EVENTS} events in one session; the rest was not recorded"
            blocks = [{"type": "text", "text": clean(text)}]
            answer = {"content": blocks, "stop_reason": "end_turn", "latency_ms": latency_ms}
            response = _failed(error, latency_ms) if error else answer
            overdue = {TIMEOUT: TRUE} if is_overdue else {}
            self._append(Turn, {ROLE: ANSWER, **overdue}, {"response": response})
            self._append(SessionEnd, {}, {})
            self._ended = True
            return self._events

    def _end_open_calls(self) -> None:
        """Record open calls that met a fault: the agent met it even where it did not wait for the result."""
        with self._lock:
            tool_calls, model_calls = list(self._tool_calls.values()), list(self._model_calls.values())
        for tool_call in tool_calls:
            if tool_call.triggered is not None:
                self.end_tool_call(tool_call, UNAWAITED, [tool_call.triggered.fault_id], failed=True)
        for model_call in model_calls:
            if model_call.triggered is not None:
                self.end_model_call(model_call, UNAWAITED, [model_call.triggered.fault_id])

    def _add(self, kind: type[Event], met: Sequence[FaultId], labels: Mapping[str, str] = {}, **fields: Any) -> None:
        if self._ended or len(self._events) >= MOST_EVENTS:
            self._dropped += 1
            return
        self._append(kind, {**labels, FAULT: write_faults(met)} if met else dict(labels), fields)

    def _append(self, kind: type[Event], labels: dict[str, str], fields: dict[str, Any]) -> None:
        self._time = max(self._time, time.time())  # a clock that is set back makes no event late
        event_id = f"e{len(self._events)}"
        self._events.append(
            kind(session_id=self.session_id, event_id=event_id, time=self._time, labels=labels, **fields)
        )

    def _call_id(self, tool: str) -> str:
        """Return the model's id for a call that the model asked for: both events are the same attempt."""
        for number, (name, call_id) in enumerate(self._announced):
            if name == tool and call_id not in self._tool_calls:
                del self._announced[number]
                return call_id
        return self._fresh_id()

    def _fresh_id(self) -> str:
        self._calls += 1
        return f"call-{self._calls}"


def _failed(reason: str, latency_ms: float) -> dict[str, Json]:
    return {"content": [], "stop_reason": "error", "error": clean(reason), "latency_ms": latency_ms}


def _stored_request(request: dict[str, Json]) -> dict[str, Json]:
    """Return the request as it is recorded: a text becomes one message, and an oversized request is cut."""
    if isinstance(request["messages"], str):
        request = {**request, "messages": [{"role": "user", "content": request["messages"]}]}
    stored = storable(request)
    return stored if isinstance(stored, dict) else {"cut": stored}


def _stored_response(response: Json) -> dict[str, Json]:
    """Return the response as it is recorded; an oversized one becomes a text block, cut."""
    stored = storable(response)
    if isinstance(stored, dict):
        return stored
    return {"content": [{"type": "text", "text": stored}], "stop_reason": "end_turn"}


def inject(messages: Json, injected: Iterable[InjectedText]) -> tuple[Json, list[FaultId]]:
    """Return messages, or a text, with every text injected, and the attacks that did it."""
    met = []
    for item in injected:
        if isinstance(messages, list):
            messages = into_messages(messages, item.text, item.strategy)
        elif isinstance(messages, str):
            messages = into_text(messages, item.text, item.strategy, first=True)
        else:
            continue
        met.append(item.fault_id)
    return messages, met


class ActiveRun:
    """The scenario run of this process, if there is one; without it wrapped tools and proxies change nothing.

    There is one for the whole process. A tool that was wrapped at import time has nobody to hand it a run, and agents
    call tools from threads of their own. A process runs one scenario at a time.
    """

    def __init__(self) -> None:
        self.run: ScenarioRun | None = None
        self.abandoned_threads: WeakSet[Thread] = WeakSet()
        self.is_model_wrapped = False
        self.is_model_proxied = False

    @property
    def current(self) -> ScenarioRun | None:
        """The run that a call from this thread belongs to; None in the thread of an agent that timed out."""
        if self.abandoned_threads and current_thread() in self.abandoned_threads:
            return None
        return self.run

    @property
    def has_model(self) -> bool:
        """Whether calls of the model pass through a wrapper or a proxy."""
        return self.is_model_wrapped or self.is_model_proxied


ACTIVE_RUN: Final = ActiveRun()


class WrappedModelCall:
    """One call of a wrapped model: its arguments after the attacks, and what the agent gets back."""

    def __init__(self, run: ScenarioRun, args: tuple[Any, ...]) -> None:
        self._run = run
        self._call = run.begin_model_call({"messages": args[0] if args else None})
        self._triggered = self._call.triggered
        self.delay = llm_delay(self._triggered.fault) if self._triggered is not None else 0.0
        self.args = (self._call.request["messages"], *args[1:]) if args else args

    def replaced(self) -> ErrorReply | None:
        """Record the error of a fault that replaces the call, and return it; None for other faults, and without any."""
        triggered = self._triggered
        reply = error_reply(triggered.fault) if triggered is not None else None
        if triggered is not None and reply is not None:
            self._end(reply.body, [triggered.fault_id])
        return reply

    def fail(self, error: Exception) -> None:
        """Record that the model itself raised an error."""
        self._end(f"{type(error).__name__}: {error}", [])

    def answer(self, result: Any) -> Any:
        """Record the answer and return it as the agent gets it; anything but a text is returned unchanged."""
        if not isinstance(result, str):
            self._end(Completion(text=str(result), finish="stop"), [])
            return result
        changed = str(distort(result, self._triggered.fault)) if self._triggered is not None else result
        met = [self._triggered.fault_id] if self._triggered and changed != result else []
        self._end(Completion(text=changed, finish="stop"), met)
        return changed

    def _end(self, completion: Completion | str, met: list[FaultId]) -> None:
        self._run.end_model_call(self._call, completion, met)
