"""A scene: one prompt under one scenario. It decides what the agent meets, and writes down everything that happens."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import msgspec

from stream_guard.model import Event, Json, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard_contract.attacks import into_messages, into_text
from stream_guard_contract.completions import Said, to_response
from stream_guard_contract.labels import ANSWER, FAULT, MODEL, ROLE, SORTS, WATCHED, FaultMet, write_faults
from stream_guard_contract.recording import clean, storable
from stream_guard_contract.storm import ModelHit, Planted, Storm, ToolHit

UNAWAITED: Final = "the agent did not wait for the answer"
MOST_EVENTS: Final = 10_000  # of one scene: an agent that never stops calling must not fill the memory


class Call(msgspec.Struct):
    """One call of a tool that was begun, and what it meets."""

    call_id: str
    tool: str
    began: float
    hit: ToolHit | None
    planted: list[Planted]


class Asked(msgspec.Struct):
    """One call of the model that was begun: what it is asked, and what it meets."""

    request: dict[str, Json]
    began: float
    hit: ModelHit | None
    met: list[FaultMet]  # attacks that are in the request


class Scene:
    """One prompt under one scenario, from the first event to the last; used by several threads.

    What reaches it after its end, such as a tool that answers an agent nobody waits for any more, is not written.
    """

    def __init__(self, session_id: str, labels: Mapping[str, str], storm: Storm) -> None:
        self.session_id = session_id
        self._storm = storm
        self._lock = Lock()
        self._first = {**labels, WATCHED: ",".join(SORTS)}  # on the first event, and meant for all
        self._events: list[Event] = []
        self._open: dict[str, Call] = {}
        self._asked: dict[int, Asked] = {}
        self._announced: list[tuple[str, str]] = []  # tool and call id of calls the model asked for
        self._calls = 0
        self._dropped = 0
        self._ended = False
        self._time = 0.0

    def begin(self, prompt: str) -> str:
        """Return the prompt as the agent gets it, with whatever an attack put into it."""
        with self._lock:
            planted = self._storm.plant("prompt")
            for _met, text, strategy in planted:
                prompt = into_text(prompt, text, strategy, first=True)
            self._add(UserMessage, [item.met for item in planted], self._first, text=clean(prompt))
        return prompt

    def begin_call(self, tool: str, args: Any, url: str = "") -> Call:
        """Write down an attempt, and decide what comes of it."""
        with self._lock:
            hit = self._storm.on_tool(tool, url)
            # An answer that never comes, or is no answer, carries no attack.
            planted = self._storm.plant("tool") if hit is None or hit.fault.mode == "slow" else []
            call = Call(self._call_id(tool), tool, time.perf_counter(), hit, planted)
            if not self._ended:
                self._open[call.call_id] = call
            self._add(ToolCall, (), tool=clean(tool), call_id=call.call_id, args=storable(args))
        return call

    def end_call(self, call: Call, output: Any, met: Sequence[FaultMet] = (), *, failed: bool = False) -> None:
        """Write down what the agent got for a call, and the faults that made it so."""
        with self._lock:
            if self._open.pop(call.call_id, None) is None:
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

    def begin_model(self, request: Mapping[str, Json]) -> Asked:
        """Return the request as the model gets it, with whatever an attack put into it, and what comes of it."""
        with self._lock:
            messages, met = poison(request.get("messages"), self._storm.plant("model"))
            asked = Asked({**request, "messages": messages}, time.perf_counter(), self._storm.on_model(), met)
            if not self._ended:
                self._asked[id(asked)] = asked
            return asked

    def end_model(self, asked: Asked, said: Said | str, met: Sequence[FaultMet] = ()) -> None:
        """Write down a call of the model: what it was asked, and its answer or how that failed."""
        with self._lock:
            if self._asked.pop(id(asked), None) is None:
                return
            latency_ms = (time.perf_counter() - asked.began) * 1000
            if isinstance(said, str):
                response = _failed(said, latency_ms)
            else:
                for call in said.calls:
                    call.id = call.id or self._fresh_id()
                    self._announced.append((call.name, call.id))
                response = to_response(said, latency_ms)
            self._add(
                Turn,
                [*asked.met, *met],
                {ROLE: MODEL},
                request=_request(asked.request),
                response=_object(storable(response)),
            )

    def end(self, text: str, latency_ms: float, error: str = "") -> list[Event]:
        """Write down the answer, or why there is none, and return the events of the session."""
        self._end_waiting()
        with self._lock:
            if self._dropped and not error:
                error = f"more than {MOST_EVENTS} events in one session; the rest was not recorded"
            blocks = [{"type": "text", "text": clean(text)}]
            answer = {"content": blocks, "stop_reason": "end_turn", "latency_ms": latency_ms}
            response = _failed(error, latency_ms) if error else answer
            self._append(Turn, {ROLE: ANSWER}, {"response": response})
            self._append(SessionEnd, {}, {})
            self._ended = True
            return self._events

    def _end_waiting(self) -> None:
        """Write down the faults that the agent did not wait for: it met them all the same."""
        with self._lock:
            calls, asked = list(self._open.values()), list(self._asked.values())
        for call in calls:
            if call.hit is not None:
                self.end_call(call, UNAWAITED, [call.hit.met], failed=True)
        for one in asked:
            if one.hit is not None:
                self.end_model(one, UNAWAITED, [one.hit.met])

    def _add(self, kind: type[Event], met: Sequence[FaultMet], labels: Mapping[str, str] = {}, **fields: Any) -> None:
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
        """A call that the model asked for keeps the model's id: it is one attempt, seen twice."""
        for number, (name, call_id) in enumerate(self._announced):
            if name == tool and call_id not in self._open:
                del self._announced[number]
                return call_id
        return self._fresh_id()

    def _fresh_id(self) -> str:
        self._calls += 1
        return f"call-{self._calls}"


def _failed(why: str, latency_ms: float) -> dict[str, Json]:
    return {"content": [], "stop_reason": "error", "error": clean(why), "latency_ms": latency_ms}


def _request(asked: dict[str, Json]) -> dict[str, Json]:
    """What was asked, as it is kept: a text is one message, and too much of it is cut."""
    if isinstance(asked["messages"], str):
        asked = {**asked, "messages": [{"role": "user", "content": asked["messages"]}]}
    kept = storable(asked)
    return kept if isinstance(kept, dict) else {"cut": kept}


def _object(value: Json) -> dict[str, Json]:
    """A response too large to keep keeps its text, cut."""
    return (
        value if isinstance(value, dict) else {"content": [{"type": "text", "text": value}], "stop_reason": "end_turn"}
    )


def poison(asked: Json, planted: Iterable[Planted]) -> tuple[Json, list[FaultMet]]:
    """Return messages, or a text, with everything planted in them, and what was met by that."""
    met = []
    for item in planted:
        if isinstance(asked, list):
            asked = into_messages(asked, item.text, item.strategy)
        elif isinstance(asked, str):
            asked = into_text(asked, item.text, item.strategy, first=True)
        else:
            continue
        met.append(item.met)
    return asked, met
