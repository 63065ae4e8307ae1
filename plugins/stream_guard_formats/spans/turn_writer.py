"""Writes turns from calls to a model: the answer, and the messages of the request that are new.

Every call to a model sends the whole history again. A message becomes an event when it is met for the first time.
Results are recognised by the id of their call, texts by how often they occurred, and answers also by their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from stream_guard import Json
from stream_guard_formats.chat.messages import CallResult, Message, read_messages, unpack
from stream_guard_formats.conversation import label, text_block
from stream_guard_formats.spans.conversation_history import digest_of
from stream_guard_formats.spans.event_context import EventContext
from stream_guard_formats.spans.raw_spans import Span

_encode = msgspec.json.Encoder().encode


class _NamedMessage(NamedTuple):
    """A message and what it is known by. It holds the message, whose address is the key of a table."""

    message: Message
    key: str
    digest: str


class TurnWriter:
    """Adds calls to a model, with their messages and results, to a conversation."""

    def __init__(self, context: EventContext) -> None:
        self._context = context
        self._conversation, self._history, self._tree = context.conversation, context.history, context.tree
        self.messages: dict[str, tuple[list[Message], list[Message]]] = {}  # by model span: inputs and outputs
        self._parsed: dict[bytes, list[Message]] = {}  # input messages by their JSON: each comes with every later call
        self._names: dict[int, _NamedMessage] = {}

    def prepare(self, spans: Sequence[Span]) -> None:
        """Read the messages of the spans, because a later call to a model may hold the result of an earlier call."""
        for span in spans:
            if span.sort == "llm" or span.remote:
                inputs, outputs = self._read_inputs(span.inputs), read_messages(span.outputs, "assistant")
                self.messages[span.span_id] = inputs, outputs
                results = [result for message in inputs for result in message.results]
                self._context.outputs |= {result.call_id: result.output for result in results if result.call_id}

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

    def add(self, span: Span) -> None:
        """Add the turn that a call to a model is, unless another view of it became events before."""
        if span.identity and self._context.note_emitted(f"m{span.identity}"):
            return
        span = self._tree.with_outcome(span)
        inputs, outputs = self.messages[span.span_id]
        if not inputs and not outputs:
            inputs, outputs = self._content_around(span)
        header = self._context.header(span, span.start)
        self._add_messages(inputs, header)
        answers = [message for message in outputs if message.role == "assistant"]
        content: list[Json] = [text_block(message.text) for message in answers if message.text]
        content += [call for message in answers for call in message.calls]
        if span.emitted:
            self._add_late_content(content, outputs, header)
            return
        extra = dict(span.response)
        extra["stop_reason"] = span.stop_reason or ("error" if span.failed and not content else None)
        extra["usage"] = span.usage
        if span.failed and span.error:
            extra["error"] = span.error
        if span.start is not None and span.end is not None:
            extra["latency_ms"] = (span.end - span.start) * 1000
        if span.model:
            header["labels"] = {**self._conversation.labels, "model": label(span.model)}
        # A span without any messages comes from a source that is configured not to capture them.
        header["captured"] = bool(inputs or outputs)
        request = dict(span.request)
        if self._history.retrieved:
            request["retrieved"] = self._history.use_chunks()
        if request:
            header["request"] = request
        key = _turn_key(content) if content else f"t{span.identity or span.span_id}"
        self._add_turn(key, content, extra, header)
        self._add_messages([message for message in outputs if message.results], header, results_only=True)

    def _content_around(self, span: Span) -> tuple[list[Message], list[Message]]:
        """Return the messages of the span around this one, where that is the same call."""
        around = self._tree.model_call_around(span)
        return self.messages.get(around.span_id, ([], [])) if around is not None else ([], [])

    def _add_late_content(self, content: list[Json], outputs: Sequence[Message], header: dict[str, Any]) -> None:
        """Add the calls and the results of a turn that was emitted without its content."""
        for block in content:
            if block["type"] == "tool_use":
                self._context.announce([block])
                self._conversation.call(["late", block["id"]], block, **header)
        self._add_messages([message for message in outputs if message.results], header, results_only=True)

    def _add_turn(self, key: str, content: list[Json], extra: dict[str, Json], header: dict[str, Any]) -> None:
        history = self._history
        history.add_message(key)
        run = header.get("run_id", "")
        history.turns[run] = history.turns.get(run, 0) + 1
        self._conversation.turn(key, content, extra=extra, **header)
        self._context.announce([block for block in content if block["type"] == "tool_use"])

    def _add_messages(self, messages: Sequence[Message], header: dict[str, Any], *, results_only: bool = False) -> None:
        """Add the messages, or only the results in them, that did not become events before."""
        if "request" in header:
            header = {name: value for name, value in header.items() if name != "request"}
        met: dict[str, int] = {}  # how often each was met here
        turns = 0
        for message in messages:
            for result in message.results:
                key = f"r{result.call_id or result.tool}"
                met[key] = met.get(key, 0) + 1
                if met[key] > self._history.count_of(key):
                    self._add_result(result, key, header)
            if results_only or message.role not in ("user", "assistant") or not (message.text or message.calls):
                continue
            named = self._names.get(id(message)) or self._name(message)
            met[named.digest] = met.get(named.digest, 0) + 1
            turns += message.role == "assistant"
            # Some exports cut messages that they send again: an answer is then recognised by its place.
            placed = message.role == "assistant" and turns <= self._history.turns.get(header.get("run_id", ""), 0)
            before = self._history.messages.get(named.digest, 0)
            if met[named.digest] <= before or placed or (message.calls and self._announced_all(message)):
                continue
            key = named.key
            if message.role == "user":
                self._history.add_message(key)
                if not header.get("run_id"):  # a sub-agent's parent writes in the user's role: no person spoke
                    self._history.begin_question()
                    self._conversation.user(key, message.text, **header)
            else:
                self._add_turn(key, _blocks_of(message), {}, dict(header))

    def _name(self, message: Message) -> _NamedMessage:
        """Return the key of a message. It is made once, although every later request sends the message again."""
        key = f"u{message.text}" if message.role == "user" else _turn_key(_blocks_of(message))
        named = self._names[id(message)] = _NamedMessage(message, key, digest_of(key))
        return named

    def _announced_all(self, message: Message) -> bool:
        return all(call["id"] and call["id"] in self._history.calls for call in message.calls)

    def add_announced_results(self, span: Span) -> None:
        """Add the results of announced calls from the outputs of a span that is neither a model's nor a tool's."""
        announced = self._history.calls
        messages = [
            message
            for message in read_messages(span.outputs)
            if any(result.call_id in announced for result in message.results)
        ]
        self._add_messages(messages, self._context.header(span, span.end), results_only=True)

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
        if result.call_id:
            self._history.add_message(f"result before {call_id}")
        self._conversation.result(key, call_id, result.output, status=status, tool=result.tool, **header)


def _blocks_of(message: Message) -> list[Json]:
    return [*([text_block(message.text)] if message.text else []), *message.calls]


def _turn_key(content: list[Json]) -> str:
    """Return a key that stays the same when a turn is sent again, even with its arguments written differently."""
    parts = [block.get("text") or block.get("id") or [block["name"], block["input"]] for block in content]
    return "t" + msgspec.json.encode(parts).decode()
