"""Writes calls and their results, from the spans of tools, retrievals and memories."""

from __future__ import annotations

from stream_guard import Json
from stream_guard_formats.chat.messages import may_hold_result, read_messages, unpack
from stream_guard_formats.conversation import ResultStatus, text_of
from stream_guard_formats.spans.call_views import MergedCall, args_digest, same_tool
from stream_guard_formats.spans.conversation_history import AnnouncedCall
from stream_guard_formats.spans.decision_writer import DecisionWriter
from stream_guard_formats.spans.event_context import EventContext
from stream_guard_formats.spans.raw_spans import Span


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
