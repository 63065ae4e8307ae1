"""ATIF, the trajectories of Harbor: one record for each trajectory, a step for each message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stream_guard import Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import open_run
from stream_guard_formats.chat.openai_chat import status_of
from stream_guard_formats.conversation import (
    Conversation,
    derived_session,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import number_at, object_at, objects_in, seconds, text_at

# A trajectory that goes on in another file has the name of the first, and a number.
_CONTINUED: Final = re.compile(r"-cont-\d{1,6}\Z")
_DEEPEST: Final = 20


class _Agent(NamedTuple):
    """Who acts in a trajectory."""

    name: str
    run_id: str = ""
    path: tuple[str, ...] = ()
    model: str = ""

    def header(self, time: float | None) -> dict[str, Any]:
        return {"time": time, "agent": self.name, "run_id": self.run_id, "agent_path": self.path}


class AtifDecoder(JsonDecoder):
    """Reads ``{"schema_version": "ATIF-v1...", "steps": [...]}``. A step of the agent is a turn, with its results.

    Steps that were copied from an earlier trajectory are not new. An observation that belongs to no call is no result.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a trajectory, by the version of its schema."""
        return 1.0 if isinstance(data, dict) and str(data.get("schema_version", "")).startswith("ATIF") else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the steps in order, those of sub-agents at their calls, or raise DecodeError."""
        trajectory = open_run(data, "an ATIF trajectory", "steps").data
        named = text_at(trajectory, "session_id", "trajectory_id")
        conversation = Conversation(_CONTINUED.sub("", named)[:512] or derived_session(record.value))
        self._trajectory(conversation, trajectory, _agent(trajectory))
        return conversation.events

    def _trajectory(
        self, conversation: Conversation, trajectory: dict[str, Json], agent: _Agent, depth: int = 0
    ) -> None:
        inner = objects_in(trajectory, "subagent_trajectories", "trajectories") if depth < _DEEPEST else []
        below = {text_at(one, "trajectory_id", "session_id"): one for one in inner}

        def delegate(reference: str) -> None:
            if (found := below.pop(reference, None)) is not None:
                above = (*agent.path, agent.name)
                self._trajectory(conversation, found, _agent(found, reference[:200], above), depth + 1)

        for step in objects_in(trajectory, "steps", "steps"):
            if step.get("is_copied_context") is not True:
                self._step(conversation, step, agent, delegate)
        for reference in list(below):
            delegate(reference)

    def _step(self, conversation: Conversation, step: dict[str, Json], agent: _Agent, delegate: Any) -> None:
        header = agent.header(seconds(step.get("timestamp")))
        text, source = text_of(step.get("message")), step.get("source")
        identity = [step.get("step_id"), step.get("timestamp"), source, agent.run_id, text]
        if source == "user" and not agent.run_id:  # a sub-agent's parent writes in the user's role
            conversation.user(identity, text, **header)
        calls = [
            tool_use(
                call.get("tool_call_id"), call.get("function_name"), call.get("arguments"), strict_keys=self.strict_keys
            )
            for call in objects_in(step, "tool_calls", "tool calls")
        ]
        if source == "agent" and number_at(step, "llm_call_count") != 0:
            content: list[Json] = [text_block(text)] if text else []
            model = text_at(step, "model_name") or agent.model
            labels = {"model": label(model)} if model else {}
            extra = {"usage": step.get("metrics"), "stop_reason": "tool_use" if calls else "end_turn"}
            conversation.turn([*identity, calls], content + calls, extra=extra, **header, labels=labels)
        else:
            for call in calls:  # called without asking a model
                conversation.call([*identity, call], call, **header)
        self._results(conversation, step, calls, header, delegate)

    def _results(
        self,
        conversation: Conversation,
        step: dict[str, Json],
        calls: list[dict[str, Json]],
        header: dict[str, Any],
        delegate: Any,
    ) -> None:
        results = objects_in(object_at(step, "observation"), "results", "results")
        for number, result in enumerate(results):
            for reference in objects_in(result, "subagent_trajectory_ref", "references"):
                delegate(text_at(reference, "trajectory_id", "session_id"))
            call_id = identifier(result.get("source_call_id"))
            if not call_id and len(calls) == len(results):
                call_id = calls[number]["id"]
            if call_id:
                extra = object_at(result, "extra")
                failed = extra.get("is_error") is True or bool(extra.get("error"))
                output = result.get("content")
                conversation.result(
                    ["r", step.get("step_id"), call_id],
                    call_id,
                    text_of(output) or output,
                    status="error" if failed else status_of(text_of(output)),
                    **header,
                )


def _agent(trajectory: dict[str, Json], run_id: str = "", path: tuple[str, ...] = ()) -> _Agent:
    described = object_at(trajectory, "agent")
    name, version = text_at(described, "name"), text_at(described, "version")
    return _Agent(
        f"{name}@{version}"[:200] if name and version else name[:200], run_id, path, text_at(described, "model_name")
    )
