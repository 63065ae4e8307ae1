"""Step telemetry: one record for each episode, with the tools that each step used."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard import Event, Json, JsonDecoder, Record
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
from stream_guard_formats.reading import has_fields, number_at, objects_in, text_at


class StepTelemetryDecoder(JsonDecoder):
    """Reads ``{"episode_id": ..., "steps": [...]}``. A step is a turn, with the results of its calls."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is an episode."""
        return 0.95 if has_fields(data, "episode_id", "steps") else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the episode's events in order, its end with them, or raise DecodeError."""
        opened = open_run(data, "an episode", "steps")
        episode = opened.data
        names = [name for name in (text_at(episode, "corpus"), text_at(episode, "episode_id")) if name]
        session_id = "/".join(names) if text_at(episode, "episode_id") else derived_session(record.value, *names)
        conversation = Conversation(session_id)
        task = ""
        for number, step in enumerate(opened.messages):
            if (new_task := text_of(step.get("task"))) and new_task != task:
                task = new_task
                conversation.user([number, task], task)
            self._step(conversation, number, step)
        if conversation.events:
            conversation.end()
        return conversation.events

    def _step(self, conversation: Conversation, number: int, step: dict[str, Json]) -> None:
        text = text_of(step.get("text"))
        content: list[Json] = [text_block(text)] if text else []
        used = objects_in(step, "tool_events", "tool events")
        # Ids are often empty here; without one, two calls of a tool in one step could swap their results.
        ids = [identifier(use.get("id")) or f"{number}.{place}" for place, use in enumerate(used)]
        content += [
            tool_use(call_id, use.get("name"), use.get("args"), strict_keys=self.strict_keys)
            for call_id, use in zip(ids, used, strict=True)
        ]
        tokens = number_at(step, "output_tokens")
        extra = {
            "latency_ms": _milliseconds(step),
            "usage": None if tokens is None else {"output_tokens": int(tokens)},
        }
        labels = {"model": label(model)} if (model := text_at(step, "model")) else {}
        conversation.turn([number, content], content, extra=extra, labels=labels)
        for call_id, use in zip(ids, used, strict=True):
            conversation.result(
                [number, call_id],
                call_id,
                use.get("result"),
                status="error" if use.get("is_error") is True else "ok",
                tool=text_at(use, "name"),
                latency_ms=_milliseconds(use),
            )


def _milliseconds(holder: dict[str, Json]) -> float | None:
    latency = number_at(holder, "latency_s")
    return None if latency is None else latency * 1000
