"""Written-out runs: steps with roles, in which an agent's action is an object with a name and arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stream_guard import Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import unpack
from stream_guard_formats.chat.openai_chat import status_of
from stream_guard_formats.conversation import (
    Conversation,
    ResultStatus,
    derived_session,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import as_object, text_at

_PLACES: Final = ("trajectory", "trace", "steps", "conversation", "turns")
_AGENTS: Final = ("agent", "assistant", "model", "ai")
_PERSONS: Final = ("user", "human")
_WORLD: Final = ("environment", "env", "tool", "observation", "function")
_ROLES: Final = (*_AGENTS, *_PERSONS, *_WORLD, "system")
_NAMES: Final = ("task_id", "id", "name")
_CALLED: Final = re.compile(r"\s*([A-Za-z_][\w.-]{0,99})\s*\(")


class ActionStepsDecoder(JsonDecoder):
    """Reads ``{"trajectory": [{"role": "agent", "action": {"name": ..., "arguments": ...}}, ...]}``.

    The steps may stand under other usual names, the action in ``content``, and a record may hold several runs. Results
    answer the calls before them in their order; fewer results than calls answer the last ones.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a run, by its roles and actions."""
        runs = _runs_in(data)
        return 0.9 if any(_name_of(_call_in(step)) for run in runs.values() for step in _steps_of(run)) else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of each run in order, and its end."""
        given = as_object(data, "a written-out run")
        events: list[Event] = []
        for key, run in _runs_in(given).items():
            name = text_at(run, *_NAMES) or text_at(given, *_NAMES)
            session_id = derived_session(record.value, *filter(None, (name, key)))
            conversation = Conversation(session_id, labels={"scenario": label(name)} if name else None)
            self._add_run(conversation, run)
            events += conversation.events
        return events

    def _add_run(self, conversation: Conversation, run: dict[str, Json]) -> None:
        tools = next((run[name] for name in ("tool_lists", "tools", "available_tools") if run.get(name)), None)
        header: dict[str, Any] = {"request": {"tools": tools}} if isinstance(tools, list) else {}
        asked = text_at(run, "user_query", "query")
        steps = _steps_of(run)
        answers = _pair(steps)
        for number, step in enumerate(steps):
            role, text = step.get("role"), text_of(step.get("content"))
            if role in _PERSONS:
                # The question may have been changed after the run was written down.
                text, asked = asked or text, ""
                conversation.user([number, text], text)
            elif role in _AGENTS:
                self._add_answer(conversation, number, step, header)
            elif role in _WORLD and number in answers:
                output = step.get("content", step.get("observation"))
                conversation.result(
                    [number, "result"], str(answers[number]), text or output, status=_status(output, text)
                )
        if conversation.events:
            conversation.end()

    def _add_answer(
        self, conversation: Conversation, number: int, step: dict[str, Json], header: dict[str, Any]
    ) -> None:
        call = _call_in(step)
        content: list[Json] = []
        text = text_of(step.get("content")) if isinstance(step.get("content"), str | list) else ""
        if text and not (call and unpack(text) is not text):
            content.append(text_block(text))
        if call:
            args = call.get("arguments", call.get("args", call.get("parameters", call.get("input"))))
            content.append(tool_use(str(number), _name_of(call), args, strict_keys=self.strict_keys))
        conversation.turn([number, content], content, **header)


def _runs_in(data: Json) -> dict[str, dict[str, Json]]:
    """Return the runs of a record by their names; a record that is a run itself has one without a name."""
    if not isinstance(data, dict):
        return {}
    if _steps_of(data):
        return {"": data}
    return {name: run for name, run in data.items() if isinstance(run, dict) and _steps_of(run)}


def _steps_of(run: dict[str, Json]) -> list[dict[str, Json]]:
    for place in _PLACES:
        steps = run.get(place)
        if isinstance(steps, list) and steps and all(_is_step(step) for step in steps):
            return steps
    return []


def _is_step(step: Json) -> bool:
    return isinstance(step, dict) and step.get("role") in _ROLES


def _call_in(step: dict[str, Json]) -> dict[str, Json]:
    """Return the call of an agent's step, an empty object where it has none."""
    if step.get("role") not in _AGENTS:
        return {}
    for place in ("action", "content", "tool_call"):
        found = unpack(step.get(place))
        if isinstance(found, dict) and _name_of(found) and not isinstance(found.get("role"), str):
            return found
    written = step.get("action")
    if isinstance(written, str) and written.strip():  # an attempt, although it is not JSON: `click(5)`
        called = _CALLED.match(written)
        return {"name": called[1] if called else "", "arguments": written}
    return {}


def _name_of(call: dict[str, Json]) -> str:
    return text_at(call, "name", "tool", "tool_name", "function")


def _pair(steps: list[dict[str, Json]]) -> dict[int, int]:
    """Return the number of the call that each result answers, by the number of the result."""
    pairs: dict[int, int] = {}
    calls: list[int] = []
    results: list[int] = []

    def settle() -> None:
        answered = calls[-len(results) :] if results else []
        pairs.update(zip(results, answered, strict=False))
        calls.clear()
        results.clear()

    for number, step in enumerate(steps):
        if step.get("role") in _WORLD:
            results.append(number)
            continue
        if results or not _call_in(step):
            settle()
        if _call_in(step):
            calls.append(number)
    settle()
    return pairs


def _status(output: Json, text: str) -> ResultStatus:
    found = unpack(output)
    if isinstance(found, dict):
        failed = found.get("error") not in (None, False, "", [], {}) or found.get("success") is False
        return "error" if failed or found.get("status") in ("error", "failed", "failure") else "ok"
    return status_of(text or msgspec.json.encode(output).decode())
