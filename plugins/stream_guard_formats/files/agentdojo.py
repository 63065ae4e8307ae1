"""AgentDojo runs: one record for each run of a task, under attack or not."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import open_run
from stream_guard_formats.conversation import (
    Conversation,
    derived_session,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import excerpt, has_fields, object_at, objects_in, text_at


class AgentDojoDecoder(JsonDecoder):
    """Reads run files, one to a line. The decisions of a run, such as ``security``, are not events."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a run, by its suite or its task."""
        is_run = has_fields(data, "suite_name", "messages") or has_fields(data, "user_task_id", "messages")
        return 0.95 if is_run else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the run's events in order, its end with them, or raise DecodeError."""
        opened = open_run(data, "an AgentDojo run", "messages")
        run, messages = opened.data, opened.messages
        suite, task = text_at(run, "suite_name"), text_at(run, "user_task_id")
        injection = text_at(run, "injection_task_id")
        session_id = derived_session(record.value, suite, task, injection)
        labels = {"scenario": label(f"{suite}/{task}"), "model": label(text_at(run, "pipeline_name"))}
        conversation = Conversation(session_id, labels={name: value for name, value in labels.items() if value})
        for message in messages:
            self._add(conversation, message)
        if messages:
            conversation.end()
        return conversation.events

    def _add(self, conversation: Conversation, message: dict[str, Json]) -> None:
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "user":
            conversation.user(message, text)
        elif role == "assistant":
            blocks: list[Json] = [text_block(text)] if text else []
            blocks += [
                tool_use(call.get("id"), call.get("function"), call.get("args"), strict_keys=self.strict_keys)
                for call in objects_in(message, "tool_calls", "tool calls")
            ]
            conversation.turn(message, blocks)
        elif role == "tool":
            call = object_at(message, "tool_call")
            failure = message.get("error")
            conversation.result(
                message,
                identifier(message.get("tool_call_id")) or identifier(call.get("id")),
                text_of(failure) if failure else text,
                status="error" if failure else "ok",
                tool=text_at(call, "function"),
            )
        elif role != "system":
            raise DecodeError(
                f'a message has the role {excerpt(role)}; a run has "system", "user", "assistant" and "tool"'
            )
