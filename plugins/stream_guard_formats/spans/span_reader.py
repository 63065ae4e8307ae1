"""Spans of one trace become events of one conversation, in time order. A message that is sent again gives no event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from stream_guard import Event, Json
from stream_guard_formats.chat.messages import CallResult, Message, may_hold_result, read_messages, unpack
from stream_guard_formats.conversation import Conversation, ResultStatus, label, text_block, text_of
from stream_guard_formats.spans.call_views import MergedCall, args_digest, merge_views, same_tool
from stream_guard_formats.spans.conversation_history import AnnouncedCall, ConversationHistory, digest_of
from stream_guard_formats.spans.raw_spans import Span
from stream_guard_formats.spans.span_tree import SpanTree

# Seconds of event time. Exporters send every five seconds: records of another process may come that much later.
_WAIT_FOR_CONTENT: Final = 5.0
_WAIT_FOR_SPANS: Final = 15.0
_RANKS: Final = {"llm": 0, "tool": 1}


class SpanReader:
    """Reads the spans of one conversation.

    A call to a model may have two spans, one around the other. Only the inner one becomes events. The spans of one tool
    call become one call.

    ``history`` holds what earlier spans of the conversation became, and is updated. ``known`` are spans of the same
    trace that were read before; they only give what is around new spans.
    """

    def __init__(
        self, conversation: Conversation, history: ConversationHistory | None = None, known: Sequence[Span] = ()
    ) -> None:
        self._conversation = conversation
        self._history = history or ConversationHistory()
        conversation.count_ids(self._history.ids)
        self._tree = SpanTree(known)
        context = EventContext(conversation, self._history, self._tree)
        self._turns, self._decisions = TurnWriter(context), DecisionWriter(context)
        self._calls = CallWriter(context, self._decisions)
        self._is_prepared = False

    def missing_views(self, spans: Sequence[Span]) -> float:
        """Return how many seconds to wait for a record that probably completes the spans.

        A call to a model without content waits for log records, which may hold it. A request whose history has more
        answers than are known waits for the spans of those answers.
        """
        self._prepare(spans)
        wait = 0.0
        before = sum(self._history.turns.values())
        for span in sorted(spans, key=_sort_key):
            if span.sort == "llm" and not span.failed and not span.identity:
                inputs, outputs = self._turns.messages[span.span_id]
                if not inputs and not outputs and not span.emitted:
                    wait = max(wait, _WAIT_FOR_CONTENT)
                elif sum(message.role == "assistant" for message in inputs) > before:
                    wait = _WAIT_FOR_SPANS
                before += 1
        return wait

    def read(self, spans: Sequence[Span], sources: list[tuple[Event, str]] | None = None) -> list[Event]:
        """Return the events of the spans, sorted by time. An event without a time stays behind the one before it.

        ``sources`` is extended by each event with the id of its span.
        """
        if not self._is_prepared:
            self._prepare(spans)
        calls = {call.span.span_id: call for call in merge_views(self._tree.spans, spans)}
        for span in sorted(spans, key=_sort_key):
            if span.sort == "tool":
                if (call := calls.pop(span.span_id, None)) is not None:
                    self._calls.add(call)
            elif self._tree.is_model_call(span):
                self._turns.add(span)
            else:
                self._add_other(span)
            if sources is not None:
                sources += [(event, span.span_id) for event in self._conversation.events[len(sources) :]]
        self._history.trim()
        return by_time(self._conversation.events)

    def _prepare(self, spans: Sequence[Span]) -> None:
        self._tree.add(spans)
        self._turns.prepare(spans)
        self._is_prepared = True

    def _add_other(self, span: Span) -> None:
        if span.sort in ("retrieval", "memory"):
            self._calls.add_store(span)
        elif span.sort == "decision":
            self._decisions.add(span, span)
        elif span.sort == "prompt":
            self._decisions.add_prompt(span)
        elif isinstance(span.outputs, str | dict | list) and may_hold_result(span.outputs):
            self._turns.add_announced_results(span)


def _sort_key(span: Span) -> tuple[float, int, float, str]:
    """Return the sort key of a span. At the same moment, calls to a model come first, then tools."""
    return span.start or 0.0, _RANKS.get(span.sort, 2), span.end or 0.0, span.span_id


def by_time(events: list[Event]) -> list[Event]:
    """Return the events sorted by time. An event without a time stays behind the one before it."""
    times: list[float] = []
    for event in events:
        times.append(event.time if event.time is not None else times[-1] if times else 0.0)
    return [events[number] for number in sorted(range(len(events)), key=times.__getitem__)]


# Writes calls and their results, from the spans of tools, retrievals and memories.


class CallWriter:
    """Adds tool calls and their results to a conversation."""

    def __init__(self, context: EventContext, decisions: DecisionWriter) -> None:
        self._context = context
        self._conversation, self._history, self._tree = context.conversation, context.history, context.tree
        self._decisions = decisions

    def add(self, merged: MergedCall) -> None:
        """Add a tool call and its result, unless a view of it became events before."""
        span = merged.span
        if merged.emitted or (span.identity and self._context.note_emitted(f"v{span.identity}")):
            return
        if span.call_id and self._history.take(f"result before {span.call_id}"):
            return  # a later request had the result before the span came
        args = unpack(span.inputs)
        call = self._announced_call(span, args)
        call_id = span.call_id or (call.call_id if call else span.span_id)
        tool = call.tool if call is not None and same_tool(call.tool, span.name) else span.name
        block = {"id": call_id, "name": tool, "input": {} if args is None else args}
        captured = span.inputs is not None
        if call is None:
            if span.call_id:
                self._history.add_message(f"span before {span.call_id}")
            self._conversation.call(
                [span.span_id], block, **self._context.header(span, span.start) | {"captured": captured}
            )
        elif call in self._history.open:
            self._history.open.remove(call)
        for view in merged.inner if call is None or call.args == args_digest(args) else ():
            # The session counts another view as the same attempt, reported again.
            self._conversation.call(
                [view.span_id], block, **self._context.header(view, view.start) | {"captured": captured}
            )
        if span.decision is not None and span.decision.action != "allow":
            self._decisions.add(span, span._replace(call_id=call_id, name=tool))
        self._add_outcome(span, call_id, tool)

    def _add_outcome(self, span: Span, call_id: str, tool: str) -> None:
        key = f"r{call_id or tool}"
        self._history.add_message(key)
        output, failed = _tool_output(span.outputs)
        captured = span.outputs is not None
        if (
            not captured and call_id in self._context.outputs
        ):  # the span leaves the result out, the next model call has it
            output, captured = self._context.outputs[call_id], True
        elif not captured and span.error and span.inputs is not None:  # content is captured, and there was none
            output, captured = span.error, True
        header = self._context.header(span, span.end) | {"captured": captured}
        if span.start is not None and span.end is not None:
            header["latency_ms"] = (span.end - span.start) * 1000
        status: ResultStatus = "error" if failed or span.failed else "ok"
        # Claude Code's spans say that a call failed in a span of their own; without one, it never ran.
        ran = bool(span.protocol) or not span.identity or self._tree.has_outcome(span)
        if (status == "error" or not ran) and self._tree.is_denied(span):
            status = "blocked"
        self._conversation.result(key, call_id, output, status=status, tool=tool, **header)

    def _announced_call(self, span: Span, args: Json) -> AnnouncedCall | None:
        """Return the open call of a tool's span: by its id, else by its tool, best with equal arguments."""
        waiting = self._history.open
        if span.call_id:
            same_id = [call for call in waiting if call.call_id == span.call_id]
            if same_id:
                return same_id[-1]
            candidates = [call for call in waiting if not call.call_id and same_tool(call.tool, span.name)]
        else:
            candidates = [call for call in waiting if same_tool(call.tool, span.name)]
        digest_of_args = args_digest(args) if len(candidates) > 1 else ""
        equal = (call for call in candidates if call.args == digest_of_args)
        return next(equal, candidates[0] if candidates else None)

    def add_store(self, span: Span) -> None:
        """Add a retrieval, or what was done with a memory, as a call of a tool that is called like it."""
        block = {"id": span.span_id, "name": span.name, "input": span.inputs or {}}
        header = self._context.header(span, span.start) | {"captured": span.inputs is not None}
        self._conversation.call([span.span_id], block, **header)
        header = self._context.header(span, span.end) | {"captured": span.outputs is not None}
        status: ResultStatus = "error" if span.failed else "ok"
        self._conversation.result(
            f"r{span.span_id}", span.span_id, span.outputs, status=status, tool=span.name, **header
        )
        if span.sort == "retrieval" and isinstance(span.outputs, list):
            self._history.add_chunks(span.outputs)


def _tool_output(outputs: Json) -> tuple[Json, bool]:
    """Return the result in a tool's span, and whether a message in it says that the call failed."""
    output = unpack(outputs)
    messages = read_messages(output) if may_hold_result(output) else []
    results = [result for message in messages for result in message.results]
    if results:
        return results[0].output, results[0].failed
    if isinstance(output, dict) and isinstance(output.get("content"), list):
        return text_of(output["content"]), output.get("isError") is True
    return output if isinstance(output, str) else outputs, False


# Writes turns from calls to a model: the answer, and the messages of the request that are new.
#
# Every call to a model sends the whole history again. A message becomes an event when it is met for the first time.
# Results are recognised by the id of their call, texts by how often they occurred, and answers also by their place.


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


# Writes the decisions of guards, approvers and evaluators, and the prompts of persons, from spans of their own.


class DecisionWriter:
    """Adds decisions about calls, and prompts, to a conversation."""

    def __init__(self, context: EventContext) -> None:
        self._context = context
        self._conversation, self._history, self._tree = context.conversation, context.history, context.tree

    def add(self, span: Span, target: Span) -> None:
        """Add the decision of a guard, a person or an evaluator about a call."""
        decision = span.decision
        if decision is None:
            return
        around = target if target.sort == "tool" else self._tree.tool_around(span)
        call_id = decision.call_id or (around.call_id or around.span_id if around is not None else "")
        tool = decision.tool or (around.name if around is not None else "")
        header = self._context.header(span, span.start)
        if call_id and self._context.note_emitted("\n".join(("d", call_id, decision.action, *decision.rule_ids))):
            return
        is_known = call_id in self._history.calls or self._history.count_of(f"r{call_id}") > 0
        if tool and decision.action != "allow" and not is_known and target.sort != "tool":
            # A call that is held back may never run, so no other span shows the attempt.
            block = {"id": call_id, "name": tool, "input": {}}
            self._context.announce([block])
            self._conversation.call(["held back", call_id], block, **header | {"captured": False})
        if decision.labels:
            header["labels"] = {**self._conversation.labels, **decision.labels}
        self._conversation.decision([span.span_id, "d"], decision.action, call_id, tool, decision.rule_ids, **header)

    def add_prompt(self, span: Span) -> None:
        """Add the prompt of a person, once, although spans and log records both report it."""
        text = span.inputs if isinstance(span.inputs, str) else ""
        channel = f"p{'log' if span.end is None else 'span'} {text}"
        self._history.add_message(channel)
        key = f"u{text}"
        if self._history.count_of(channel) > self._history.count_of(key):
            self._history.add_message(key)
            header = self._context.header(span, span.start) | {"captured": span.inputs is not None}
            self._conversation.user(key, text, **header)


# The context in which spans become events: the conversation, its history, and the spans around each other.


# A trace may announce any number of calls and answer none of them.
_MAX_OPEN_CALLS: Final = 256


class EventContext:
    """The conversation that gets the events, its history, and the spans of the trace. All writers share it."""

    def __init__(self, conversation: Conversation, history: ConversationHistory, tree: SpanTree) -> None:
        self.conversation = conversation
        self.history = history
        self.tree = tree
        self.outputs: dict[str, str] = {}  # results that were sent to a model, by call id

    def header(self, span: Span, time: float | None) -> dict[str, Any]:
        """Return the time and the agent of a span's events. An agent inside another has a run of its own."""
        agents = self.tree.agents_around(span)
        if span.remote:
            agents = [span, *agents]
        header: dict[str, Any] = {"time": time}
        if not agents and not span.agent and not span.run_id:
            return header
        if agents or span.agent:
            header["agent"] = agents[0].agent[:200] if agents else span.agent
        if len(agents) > 1:
            header["run_id"] = agents[0].span_id
            header["agent_path"] = tuple(agent.agent[:200] for agent in reversed(agents[1:]))
        if span.run_id:
            header |= {"run_id": span.run_id, "agent": header.get("agent") or "sub-agent"}
        return header

    def note_emitted(self, key: str) -> bool:
        """Note that a view of this becomes an event. Return whether another view did before."""
        before = self.history.count_of(key) > 0
        self.history.add_message(key)
        return before

    def announce(self, calls: Sequence[dict[str, Json]]) -> None:
        """Note calls that have no result yet."""
        history = self.history
        for block in calls:
            call_id = block["id"]
            # The span of the call may have come before the answer that announces it.
            if call_id and history.take(f"span before {call_id}"):
                continue
            history.open.append(AnnouncedCall(call_id, block["name"], args_digest(block["input"])))
        del history.open[:-_MAX_OPEN_CALLS]
        history.calls |= {block["id"]: True for block in calls}
