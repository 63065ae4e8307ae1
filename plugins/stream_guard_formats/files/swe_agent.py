"""SWE-agent's trajectories: steps of a thought, an action in the shell and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from stream_guard import Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import open_run
from stream_guard_formats.chat.openai_chat import status_of
from stream_guard_formats.conversation import Conversation, derived_session, label, text_block, text_of, tool_use
from stream_guard_formats.reading import number_at, object_at, objects_in, text_at

_SHELL: Final = "bash"  # every action runs in the shell, the agent's own commands too


class SweAgentDecoder(JsonDecoder):
    """Reads ``{"trajectory": [{"action": ..., "observation": ...}], "history": [...], "info": {...}}``.

    Where the history has the tool call of a step, its name and arguments count; else an action is a command of
    ``bash``. Demonstrations are left out.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a trajectory, by its steps."""
        steps = data.get("trajectory") if isinstance(data, dict) else None
        first = steps[0] if isinstance(steps, list) and steps else None
        if not isinstance(first, dict):
            is_empty = steps == [] and "history" in data and "info" in data
            return 0.9 if is_empty else 0.0
        is_step = isinstance(first.get("action"), str) and "observation" in first
        return 0.95 if is_step and any(name in first for name in ("response", "thought", "state", "query")) else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the steps in order, and the end of the run, or raise DecodeError."""
        opened = open_run(data, "a trajectory of SWE-agent", "trajectory")
        run, steps = opened.data, opened.messages
        history = [message for message in _history(run, steps) if message.get("is_demo") is not True]
        name = text_at(run, "instance_id") or text_at(object_at(run, "replay_config"), "instance_id")
        model = text_at(object_at(object_at(run, "agent"), "model"), "name")
        labels = {"scenario": label(name), "model": label(model)}
        conversation = Conversation(
            derived_session(record.value, name), labels={key: value for key, value in labels.items() if value}
        )
        task = next((text_of(one.get("content")) for one in history if one.get("role") == "user"), "")
        if task:
            conversation.user(["task", task], task)
        answers = (message for message in history if message.get("role") == "assistant")
        for number, step in enumerate(steps):
            self._step(conversation, number, step, _answer_of(step, answers))
        if conversation.events:
            conversation.end()
        return conversation.events

    def _step(self, conversation: Conversation, number: int, step: dict[str, Json], answer: dict[str, Json]) -> None:
        action = text_of(step.get("action"))
        text = text_of(step.get("thought")) or text_of(step.get("response"))
        content: list[Json] = [text_block(text)] if text else []
        call_id = ""
        if action.strip():
            block = self._call(number, action, step, answer)
            content, call_id = [*content, block], block["id"]
        conversation.turn([number, text, action], content)
        if call_id:
            latency = number_at(step, "execution_time")
            output = text_of(step.get("observation"))
            header: dict[str, Any] = {} if latency is None else {"latency_ms": latency * 1000}
            conversation.result([number, "result"], call_id, output, status=status_of(output), **header)

    def _call(self, number: int, action: str, step: dict[str, Json], answer: dict[str, Json]) -> dict[str, Json]:
        calls = objects_in(step, "tool_calls", "calls") or objects_in(answer, "tool_calls", "calls")
        function = object_at(calls[0], "function") if calls else {}
        if not text_at(function, "name"):
            return tool_use(str(number), _SHELL, {"command": action.strip()}, strict_keys=self.strict_keys)
        call_id = text_at(calls[0], "id") or str(number)
        return tool_use(call_id, function["name"], function.get("arguments"), strict_keys=self.strict_keys)


def _history(run: dict[str, Json], steps: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return the messages of the run; some versions have them only in the first query."""
    first = steps[0] if steps else {}
    places = (run.get("history"), first.get("query"), first.get("messages"))
    found = next((place for place in places if isinstance(place, list) and place), [])
    return [message for message in found if isinstance(message, dict)]


def _answer_of(step: dict[str, Json], answers: Iterator[dict[str, Json]]) -> dict[str, Json]:
    """Return the message of the history that a step came from: the next one with the same action."""
    action = step.get("action")
    return next((one for one in answers if one.get("action") == action or "action" not in one), {})
