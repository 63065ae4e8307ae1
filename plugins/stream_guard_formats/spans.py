"""Spans of one trace become events of one conversation, in time order. A message that is sent again gives no event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from stream_guard import Event, Json
from stream_guard_formats.conversation import Conversation, label, text_block, text_of
from stream_guard_formats.conversation_history import AnnouncedCall, ConversationHistory
from stream_guard_formats.messages import CallResult, Message, read_messages, unpack
from stream_guard_formats.reading import digest

# A trace may announce any number of calls and answer none of them.
_MAX_OPEN_CALLS: Final = 256
_MAX_AGENT_DEPTH: Final = 100

_encode = msgspec.json.Encoder().encode


class Span(NamedTuple):
    """A span with its attributes interpreted."""

    span_id: str
    parent_id: str = ""
    sort: Literal["llm", "tool", "agent", "other"] = "other"
    name: str = ""  # of the tool or the agent
    start: float | None = None
    end: float | None = None
    inputs: Json = None  # messages, or a tool's arguments
    outputs: Json = None  # messages, or a tool's result
    call_id: str = ""
    failed: bool = False
    model: str = ""
    usage: Json = None
    stop_reason: str = ""


class SpanReader:
    """Reads the spans of one conversation.

    Every call to a model sends the whole history again. A message becomes an event when it is met for the first time.
    Results are recognised by the id of their call, texts by how often they occurred, and answers also by their place.
    A call to a model may have two spans, one around the other. Only the inner one becomes events.

    ``history`` holds what earlier spans of the conversation became, and is updated. ``known`` are spans of the same
    trace that were read before; they only give the agents around new spans.
    """

    def __init__(
        self, conversation: Conversation, history: ConversationHistory | None = None, known: Sequence[Span] = ()
    ) -> None:
        self._conversation = conversation
        self._history = history or ConversationHistory()
        conversation.count_ids(self._history.ids)
        self._spans: dict[str, Span] = {span.span_id: span for span in known}
        self._calling_agents: set[str] = set()  # agents that call a model themselves; others only group them
        self._messages: dict[str, tuple[list[Message], list[Message]]] = {}  # by model span: inputs and outputs
        self._outputs: dict[str, str] = {}  # results that were sent to a model, by call id
        self._parsed: dict[bytes, list[Message]] = {}  # input messages by their JSON: each comes with every later call

    def read(self, spans: Sequence[Span]) -> list[Event]:
        """Return the events of the spans, sorted by time. An event without a time stays behind the one before it."""
        self._spans |= {span.span_id: span for span in spans}
        model_calls = [span for span in self._spans.values() if span.sort == "llm"]
        self._calling_agents = {agents[0].span_id for span in model_calls if (agents := self._agents_around(span))}
        parents = {span.parent_id for span in model_calls}
        for span in spans:
            if span.sort == "llm":
                inputs, outputs = self._read_inputs(span.inputs), read_messages(span.outputs, "assistant")
                self._messages[span.span_id] = inputs, outputs
                results = [result for message in inputs for result in message.results]
                self._outputs |= {result.call_id: result.output for result in results if result.call_id}
        for span in sorted(spans, key=_place):
            if span.sort == "llm" and span.span_id not in parents:
                self._add_model_call(span)
            elif span.sort == "tool":
                self._add_tool_call(span)
            elif isinstance(span.outputs, str | dict | list) and _may_hold_result(span.outputs):
                self._add_announced_results(span)
        self._history.trim()
        return _by_time(self._conversation.events)

    def _read_inputs(self, inputs: Json) -> list[Message]:
        """Return the messages that went to the model. A message that was sent before is not parsed again."""
        value = unpack(inputs)
        if not isinstance(value, list):
            return read_messages(value, "user")
        messages: list[Message] = []
        for item in value:
            key = _encode(item)
            parsed = self._parsed.get(key)
            if parsed is None:
                parsed = self._parsed[key] = read_messages(item, "user", depth=1)
            messages += parsed
        return messages

    def _add_model_call(self, span: Span) -> None:
        inputs, outputs = self._messages[span.span_id]
        self._add_messages(inputs, self._header(span, span.start))
        answers = [message for message in outputs if message.role == "assistant"]
        content: list[Json] = [text_block(message.text) for message in answers if message.text]
        content += [call for message in answers for call in message.calls]
        extra: dict[str, Json] = {"stop_reason": span.stop_reason or None, "usage": span.usage}
        if span.start is not None and span.end is not None:
            extra["latency_ms"] = (span.end - span.start) * 1000
        header = self._header(span, span.start)
        if span.model:
            header["labels"] = {**self._conversation.labels, "model": label(span.model)}
        # A span without any messages comes from a source that is configured not to capture them.
        header["captured"] = bool(inputs or outputs)
        key = _turn_key(content) if content else f"t{span.span_id}"
        self._add_turn(key, content, extra, header)
        self._add_messages([message for message in outputs if message.results], header, results_only=True)

    def _add_turn(self, key: str, content: list[Json], extra: dict[str, Json], header: dict[str, Any]) -> None:
        history = self._history
        history.add_message(key)
        run = header.get("run_id", "")
        history.turns[run] = history.turns.get(run, 0) + 1
        self._conversation.turn(key, content, extra=extra, **header)
        calls = [block for block in content if block["type"] == "tool_use"]
        history.open += [AnnouncedCall(block["id"], block["name"], _args_digest(block["input"])) for block in calls]
        del history.open[:-_MAX_OPEN_CALLS]
        history.calls |= {block["id"]: True for block in calls}

    def _add_messages(self, messages: Sequence[Message], header: dict[str, Any], *, results_only: bool = False) -> None:
        """Add the messages, or only the results in them, that did not become events before."""
        met: Counter[str] = Counter()
        turns = 0
        for message in messages:
            for result in message.results:
                key = f"r{result.call_id or result.tool}"
                met[key] += 1
                if met[key] > self._history.count_of(key):
                    self._add_result(result, key, header)
            if results_only or message.role not in ("user", "assistant") or not (message.text or message.calls):
                continue
            content: list[Json] = [text_block(message.text)] if message.text else []
            content += message.calls
            key = f"u{message.text}" if message.role == "user" else _turn_key(content)
            met[key] += 1
            turns += message.role == "assistant"
            # Some exports cut messages that they send again: an answer is then recognised by its place.
            placed = message.role == "assistant" and turns <= self._history.turns.get(header.get("run_id", ""), 0)
            if met[key] <= self._history.count_of(key) or placed or (message.calls and self._announced_all(message)):
                continue
            if message.role == "user":
                self._history.add_message(key)
                if not header.get("run_id"):  # a sub-agent's parent writes in the user's role: no person spoke
                    self._conversation.user(key, message.text, **header)
            else:
                self._add_turn(key, content, {}, dict(header))

    def _announced_all(self, message: Message) -> bool:
        return all(call["id"] and call["id"] in self._history.calls for call in message.calls)

    def _add_announced_results(self, span: Span) -> None:
        """Add the results of announced calls from the outputs of a span that is neither a model's nor a tool's."""
        announced = self._history.calls
        messages = [
            message
            for message in read_messages(span.outputs)
            if any(result.call_id in announced for result in message.results)
        ]
        self._add_messages(messages, self._header(span, span.end), results_only=True)

    def _add_result(self, result: CallResult, key: str, header: dict[str, Any]) -> None:
        waiting = self._history.open
        if result.call_id:
            call = next((call for call in reversed(waiting) if call.call_id == result.call_id), None)
        else:
            call = next((call for call in waiting if call.tool == result.tool), None)
            if call is None:
                return  # the call has its result already, or was never announced
        self._history.add_message(key)
        if call is not None:
            waiting.remove(call)
        status: Literal["ok", "error"] = "error" if result.failed else "ok"
        call_id = result.call_id or (call.call_id if call else "")
        self._conversation.result(key, call_id, result.output, status=status, tool=result.tool, **header)

    def _add_tool_call(self, span: Span) -> None:
        args = unpack(span.inputs)
        call = self._announced_call(span, args)
        call_id = span.call_id or (call.call_id if call else span.span_id)
        if call is None:
            block = {"id": call_id, "name": span.name, "input": {} if args is None else args}
            header = self._header(span, span.start) | {"captured": span.inputs is not None}
            self._conversation.call([span.span_id], block, **header)
        elif call in self._history.open:
            self._history.open.remove(call)
        key = f"r{call_id or span.name}"
        self._history.add_message(key)
        output, failed = _tool_output(span.outputs)
        captured = span.outputs is not None
        if not captured and call_id in self._outputs:  # the span leaves the result out, the next model call has it
            output, captured = self._outputs[call_id], True
        header = self._header(span, span.end) | {"captured": captured}
        if span.start is not None and span.end is not None:
            header["latency_ms"] = (span.end - span.start) * 1000
        status: Literal["ok", "error"] = "error" if failed or span.failed else "ok"
        self._conversation.result(key, call_id, output, status=status, tool=span.name, **header)

    def _announced_call(self, span: Span, args: Json) -> AnnouncedCall | None:
        """Return the open call of a tool's span: by its id, else by its tool, best with equal arguments."""
        waiting = self._history.open
        if span.call_id:
            return next((call for call in reversed(waiting) if call.call_id == span.call_id), None)
        candidates = [call for call in waiting if call.tool == span.name]
        digest_of_args = _args_digest(args) if len(candidates) > 1 else ""
        equal = (call for call in candidates if call.args == digest_of_args)
        return next(equal, candidates[0] if candidates else None)

    def _agents_around(self, span: Span) -> list[Span]:
        """Return the agents around a span, the nearest first."""
        agents: list[Span] = []
        above, passed = self._spans.get(span.parent_id), {span.span_id}
        while above is not None and above.span_id not in passed and len(passed) < _MAX_AGENT_DEPTH:
            passed.add(above.span_id)
            if above.sort == "agent":
                agents.append(above)
            above = self._spans.get(above.parent_id)
        return agents

    def _header(self, span: Span, time: float | None) -> dict[str, Any]:
        """Return the time and the agent of a span's events. An agent inside another has a run of its own."""
        agents = [agent for agent in self._agents_around(span) if agent.span_id in self._calling_agents]
        header: dict[str, Any] = {"time": time}
        if agents:
            header["agent"] = agents[0].name[:200]
        if len(agents) > 1:
            header["run_id"] = agents[0].span_id
            header["agent_path"] = tuple(agent.name[:200] for agent in reversed(agents[1:]))
        return header


def _place(span: Span) -> tuple[float, bool, float, str]:
    """Return the sort key of a span. At the same moment, calls to a model come first: they announce the others."""
    return span.start or 0.0, span.sort != "llm", span.end or 0.0, span.span_id


def _tool_output(outputs: Json) -> tuple[Json, bool]:
    """Return the result in a tool's span, and whether a message in it says that the call failed."""
    output = unpack(outputs)
    messages = read_messages(output) if _may_hold_result(output) else []
    results = [result for message in messages for result in message.results]
    if results:
        return results[0].output, results[0].failed
    if isinstance(output, dict) and isinstance(output.get("content"), list):
        return text_of(output["content"]), output.get("isError") is True
    return output if isinstance(output, str) else outputs, False


def _args_digest(args: Json) -> str:
    return digest(msgspec.json.encode(args, order="sorted"))


def _turn_key(content: list[Json]) -> str:
    """Return a key that stays the same when a turn is sent again, even with its arguments written differently."""
    parts = [block.get("text") or block.get("id") or [block["name"], block["input"]] for block in content]
    return "t" + msgspec.json.encode(parts).decode()


def _may_hold_result(output: Json) -> bool:
    """Whether a value may hold a message with a result. This is cheap, because most values do not."""
    if isinstance(output, str):
        return '"tool_call_id"' in output
    if isinstance(output, dict):
        return "tool_call_id" in output or "tool_call_id" in (output.get("kwargs") or ())
    return False


def _by_time(events: list[Event]) -> list[Event]:
    times: list[float] = []
    for event in events:
        times.append(event.time if event.time is not None else times[-1] if times else 0.0)
    return [events[number] for number in sorted(range(len(events)), key=times.__getitem__)]
