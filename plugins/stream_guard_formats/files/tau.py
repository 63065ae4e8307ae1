"""tau-bench and tau2: one record for each conversation of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import open_run
from stream_guard_formats.chat.openai_chat import add_message
from stream_guard_formats.conversation import (
    Conversation,
    derived_session,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import excerpt, has_fields, number_at, object_at, objects_in, seconds, text_at


class TauBenchDecoder(JsonDecoder):
    """Reads tau-bench results: OpenAI messages under ``traj``. A run whose harness failed has none."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a result."""
        return 0.95 if has_fields(data, "traj") else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the conversation's events in order, its end with them, or raise DecodeError."""
        opened = open_run(data, "a tau-bench result", "traj")
        if not opened.messages:
            return []
        run, messages = opened.data, opened.messages
        # Benchmarks number their tasks. Only the content shows which run of a task a record is.
        names = (f"task-{text_at(run, 'task_id')}", f"trial-{text_at(run, 'trial')}")
        conversation = Conversation(derived_session(record.value, *names), labels={"scenario": label(names[0])})
        for message in messages:
            add_message(conversation, message, strict_keys=self.strict_keys)
        conversation.end()
        return conversation.events


class Tau2Decoder(JsonDecoder):
    """Reads tau2 simulations: messages with times. The simulated user calls tools too."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a simulation."""
        return 0.95 if has_fields(data, "termination_reason", "messages") else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the simulation's events in order, its end with them, or raise DecodeError."""
        header = "; leave out the header of a results file"
        opened = open_run(data, "a tau2 simulation", "messages", advice=header)
        if not opened.messages:
            return []
        run, messages = opened.data, opened.messages
        session_id = text_at(run, "id") or derived_session(record.value, text_at(run, "task_id"))
        conversation = Conversation(session_id, labels={"scenario": label(f"task-{text_at(run, 'task_id')}")})
        for message in messages:
            self._add(conversation, message)
        conversation.end(seconds(run.get("end_time")))
        return conversation.events

    def _add(self, conversation: Conversation, message: dict[str, Json]) -> None:
        role, time = message.get("role"), seconds(message.get("timestamp"))
        identity = [message.get(name) for name in ("role", "turn_idx", "id", "content", "tool_calls")]
        if role == "tool":
            failed = message.get("error") is True
            conversation.result(
                identity,
                identifier(message.get("id")),
                text_of(message.get("content")),
                status="error" if failed else "ok",
                time=time,
                **_side(message, "requestor"),
            )
        elif role == "assistant":
            latency = number_at(message, "generation_time_seconds")
            extra = {
                "usage": message.get("usage"),
                "latency_ms": None if latency is None else latency * 1000,
                "stop_reason": _stop_reason(message),
            }
            conversation.turn(identity, self._content(message), extra=extra, time=time)
        elif role == "user":
            self._user(conversation, message, identity, time)
        elif role != "system":
            raise DecodeError(f'a message has the role {excerpt(role)}; tau2 knows "assistant", "user" and "tool"')

    def _user(self, conversation: Conversation, message: dict[str, Json], identity: Json, time: float | None) -> None:
        """Add the message of the simulated user, and the user's own tool calls, which are a run of their own."""
        if text := text_of(message.get("content")):
            conversation.user(identity, text, time=time)
        for block in self._content(message):
            if block["type"] == "tool_use":
                conversation.call(identity, block, time=time, run_id="user")

    def _content(self, message: dict[str, Json]) -> list[Json]:
        text = text_of(message.get("content"))
        blocks: list[Json] = [text_block(text)] if text else []
        blocks += [
            tool_use(call.get("id"), call.get("name"), call.get("arguments"), strict_keys=self.strict_keys)
            for call in objects_in(message, "tool_calls", "tool calls")
        ]
        return blocks


def _side(message: dict[str, Json], field: str) -> dict[str, str]:
    return {"run_id": "user"} if message.get(field) == "user" else {}


def _stop_reason(message: dict[str, Json]) -> str | None:
    choices = object_at(message, "raw_data").get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return text_at(choices[0], "finish_reason") or None
    return None


# AgentDojo runs: one record for each run of a task, under attack or not.


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
