"""Spans of one trace become one conversation: in time order, and nothing told twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from stream_guard import Event, Json
from stream_guard_formats.conversation import Conversation, label, text_block, text_of
from stream_guard_formats.reading import digest
from stream_guard_formats.said import Result, Said, read_said, unpack

# A trace may announce any number of calls and answer none of them.
_OPEN: Final = 256
_DEEPEST: Final = 100
# Messages of one conversation that are known when they are sent again; the oldest are forgotten.
_MESSAGES: Final = 4096

_encode = msgspec.json.Encoder().encode


class Span(NamedTuple):
    """What a span says, in whatever names it said it."""

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


class Open(msgspec.Struct, array_like=True):
    """A call that was announced and not answered."""

    call_id: str
    tool: str
    args: str  # a digest: they may be long, and are only compared


class Told(msgspec.Struct, array_like=True):
    """What is known of a conversation: enough to tell nothing twice, however often it is sent."""

    messages: dict[str, int] = {}  # how often each was told, by digest
    ids: dict[str, int] = {}  # how often each event id was given
    calls: dict[str, bool] = {}  # ids of calls that were announced
    open: list[Open] = []
    turns: dict[str, int] = {}  # by run

    def bound(self) -> None:
        """Forget the oldest of what is too much."""
        for memory in (self.messages, self.ids, self.calls, self.turns):
            for name in list(memory)[: max(0, len(memory) - _MESSAGES)]:
                del memory[name]


class Telling:
    """Tells spans to a conversation.

    Every call to a model sends the history again. A message is told when it is met for the first time: results by
    the id of their call, texts by how often they occurred, answers also by their place. A span of a call to a model
    around another such span is the same call, and only the inner one is told. ``told`` is what earlier spans of the
    conversation told, and learns what these tell. ``known`` are spans of the same trace that were told before.
    """

    def __init__(self, conversation: Conversation, told: Told | None = None, known: Sequence[Span] = ()) -> None:
        self._conversation = conversation
        self._memory = told or Told()
        conversation.count_ids(self._memory.ids)
        self._spans: dict[str, Span] = {span.span_id: span for span in known}
        self._speaking: set[str] = set()  # agents that call a model themselves; the others only hold them together
        self._said: dict[str, tuple[list[Said], list[Said]]] = {}  # of calls to a model: asked and answered
        self._answers: dict[str, str] = {}  # what the model was told came of a call
        self._known: dict[bytes, list[Said]] = {}  # messages that were read: each comes with every later call

    def tell(self, spans: Sequence[Span]) -> list[Event]:
        """Return the events of the spans, sorted by time; what has no time stays behind what was before it."""
        self._spans |= {span.span_id: span for span in spans}
        calls = [span for span in self._spans.values() if span.sort == "llm"]
        self._speaking = {agents[0].span_id for span in calls if (agents := self._agents(span))}
        around = {span.parent_id for span in calls}
        for span in spans:
            if span.sort == "llm":
                asked, answered = self._read(span.inputs), read_said(span.outputs, "assistant")
                self._said[span.span_id] = asked, answered
                self._answers |= {one.call_id: one.output for said in asked for one in said.results if one.call_id}
        for span in sorted(spans, key=_place):
            if span.sort == "llm" and span.span_id not in around:
                self._model_call(span)
            elif span.sort == "tool":
                self._tool(span)
            elif isinstance(span.outputs, str | dict | list) and _may_answer(span.outputs):
                announced = self._memory.calls
                known = [one for one in read_said(span.outputs) if any(r.call_id in announced for r in one.results)]
                self._history(known, self._header(span, span.end), results_only=True)
        self._memory.bound()
        return _by_time(self._conversation.events)

    def _read(self, inputs: Json) -> list[Said]:
        """Return the messages that went to the model; what was sent before is not read again."""
        value = unpack(inputs)
        if not isinstance(value, list):
            return read_said(value, "user")
        found: list[Said] = []
        for message in value:
            key = _encode(message)
            said = self._known.get(key)
            if said is None:
                said = self._known[key] = read_said(message, "user", depth=1)
            found += said
        return found

    def _model_call(self, span: Span) -> None:
        asked, answered = self._said[span.span_id]
        self._history(asked, self._header(span, span.start))
        said = [one for one in answered if one.role == "assistant"]
        content: list[Json] = [text_block(one.text) for one in said if one.text]
        content += [call for one in said for call in one.calls]
        extra: dict[str, Json] = {"stop_reason": span.stop_reason or None, "usage": span.usage}
        if span.start is not None and span.end is not None:
            extra["latency_ms"] = (span.end - span.start) * 1000
        header = self._header(span, span.start)
        if span.model:
            header["labels"] = {**self._conversation.labels, "model": label(span.model)}
        # A span without any messages comes from a source that is told not to capture them.
        header["captured"] = bool(asked or answered)
        key = _key(content) if content else f"t{span.span_id}"
        self._turn(key, content, extra, header)
        self._history([one for one in answered if one.results], header, results_only=True)

    def _turn(self, key: str, content: list[Json], extra: dict[str, Json], header: dict[str, Any]) -> None:
        self._note(key)
        run = header.get("run_id", "")
        self._memory.turns[run] = self._memory.turns.get(run, 0) + 1
        self._conversation.turn(key, content, extra=extra, **header)
        calls = [block for block in content if block["type"] == "tool_use"]
        self._memory.open += [Open(block["id"], block["name"], _digest(block["input"])) for block in calls]
        del self._memory.open[:-_OPEN]
        self._memory.calls |= {block["id"]: True for block in calls}

    def _note(self, key: str) -> None:
        name = digest(key.encode("utf-8", "surrogatepass"))
        self._memory.messages[name] = self._memory.messages.get(name, 0) + 1

    def _times(self, key: str) -> int:
        return self._memory.messages.get(digest(key.encode("utf-8", "surrogatepass")), 0)

    def _history(self, messages: Sequence[Said], header: dict[str, Any], *, results_only: bool = False) -> None:
        met: Counter[str] = Counter()
        turns = 0
        for message in messages:
            for result in message.results:
                key = f"r{result.call_id or result.tool}"
                met[key] += 1
                if met[key] > self._times(key):
                    self._result(result, key, header)
            if results_only or message.role not in ("user", "assistant") or not (message.text or message.calls):
                continue
            content: list[Json] = [text_block(message.text)] if message.text else []
            content += message.calls
            key = f"u{message.text}" if message.role == "user" else _key(content)
            met[key] += 1
            turns += message.role == "assistant"
            # Some exports cut what they send again: an answer is then known by its place, not by its text.
            placed = message.role == "assistant" and turns <= self._memory.turns.get(header.get("run_id", ""), 0)
            if met[key] <= self._times(key) or placed or (message.calls and self._knows(message)):
                continue
            if message.role == "user":
                self._note(key)
                if not header.get("run_id"):  # a sub-agent is told what to do by its parent: no person spoke
                    self._conversation.user(key, message.text, **header)
            else:
                self._turn(key, content, {}, dict(header))

    def _knows(self, message: Said) -> bool:
        return all(call["id"] and call["id"] in self._memory.calls for call in message.calls)

    def _result(self, result: Result, key: str, header: dict[str, Any]) -> None:
        waiting = self._memory.open
        call = next((one for one in reversed(waiting) if result.call_id and one.call_id == result.call_id), None)
        if not result.call_id:
            call = next((one for one in waiting if one.tool == result.tool), None)
            if call is None:
                return  # it was answered already, or nobody asked
        self._note(key)
        if call is not None:
            waiting.remove(call)
        status: Literal["ok", "error"] = "error" if result.failed else "ok"
        call_id = result.call_id or (call.call_id if call else "")
        self._conversation.result(key, call_id, result.output, status=status, tool=result.tool, **header)

    def _tool(self, span: Span) -> None:
        args = unpack(span.inputs)
        call = self._announced(span, args)
        call_id = span.call_id or (call.call_id if call else span.span_id)
        if call is None:
            block = {"id": call_id, "name": span.name, "input": {} if args is None else args}
            header = self._header(span, span.start) | {"captured": span.inputs is not None}
            self._conversation.call([span.span_id], block, **header)
        elif call in self._memory.open:
            self._memory.open.remove(call)
        key = f"r{call_id or span.name}"
        self._note(key)
        text, failed = _outcome(span.outputs)
        captured = span.outputs is not None
        if not captured and call_id in self._answers:  # the span leaves it out, the next call to the model has it
            text, captured = self._answers[call_id], True
        header = self._header(span, span.end) | {"captured": captured}
        if span.start is not None and span.end is not None:
            header["latency_ms"] = (span.end - span.start) * 1000
        status: Literal["ok", "error"] = "error" if failed or span.failed else "ok"
        self._conversation.result(key, call_id, text, status=status, tool=span.name, **header)

    def _announced(self, span: Span, args: Json) -> Open | None:
        """Return the open call that the span carries out: by its id, or else by the tool, best with these arguments."""
        waiting = self._memory.open
        if span.call_id:
            return next((one for one in reversed(waiting) if one.call_id == span.call_id), None)
        named = [one for one in waiting if one.tool == span.name]
        wanted = _digest(args) if len(named) > 1 else ""
        return next((one for one in named if one.args == wanted), named[0] if named else None)

    def _agents(self, span: Span) -> list[Span]:
        """Return the agents around a span, the nearest first."""
        agents: list[Span] = []
        above, passed = self._spans.get(span.parent_id), {span.span_id}
        while above is not None and above.span_id not in passed and len(passed) < _DEEPEST:
            passed.add(above.span_id)
            if above.sort == "agent":
                agents.append(above)
            above = self._spans.get(above.parent_id)
        return agents

    def _header(self, span: Span, time: float | None) -> dict[str, Any]:
        """Return whose events these are; an agent inside another is a run of its own."""
        agents = [agent for agent in self._agents(span) if agent.span_id in self._speaking]
        header: dict[str, Any] = {"time": time}
        if agents:
            header["agent"] = agents[0].name[:200]
        if len(agents) > 1:
            header["run_id"] = agents[0].span_id
            header["agent_path"] = tuple(agent.name[:200] for agent in reversed(agents[1:]))
        return header


def _place(span: Span) -> tuple[float, bool, float, str]:
    """Return where a span belongs; what a model announced comes before what was done at the same moment."""
    return span.start or 0.0, span.sort != "llm", span.end or 0.0, span.span_id


def _outcome(outputs: Json) -> tuple[Json, bool]:
    """Return what a tool's span says came of it, and whether a message in it says that it failed."""
    output = unpack(outputs)
    answers = [result for said in read_said(output) for result in said.results] if _may_answer(output) else []
    if answers:
        return answers[0].output, answers[0].failed
    if isinstance(output, dict) and isinstance(output.get("content"), list):
        return text_of(output["content"]), output.get("isError") is True
    return output if isinstance(output, str) else outputs, False


def _digest(args: Json) -> str:
    return digest(msgspec.json.encode(args, order="sorted"))


def _key(content: list[Json]) -> str:
    """Return what makes a turn the same when it is sent again: arguments may be written in another way."""
    parts = [block.get("text") or block.get("id") or [block["name"], block["input"]] for block in content]
    return "t" + msgspec.json.encode(parts).decode()


def _may_answer(output: Json) -> bool:
    """Whether a value may hold a message with a result; cheap, because most do not."""
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
