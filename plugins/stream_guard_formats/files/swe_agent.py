"""SWE-agent's trajectories: steps of a thought, an action in the shell and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import re2

from stream_guard import Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import open_run
from stream_guard_formats.chat.openai_chat import blocks_of, status_of
from stream_guard_formats.conversation import (
    Conversation,
    ResultStatus,
    derived_session,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.files.session_files import moment
from stream_guard_formats.reading import number_at, number_in, object_at, objects_in, text_at

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


# mini-swe-agent's trajectories: one command to an answer, in a block of its text or as a tool call.


_COMMAND: Final = r"(?s)```(?:bash|mswea_bash_command|sh)\s*\n(.*?)\n```"
_RETURN_CODE: Final = re2.compile(r"<returncode>\s*(-?\d{1,9})\s*</returncode>")
_REFUSED: Final = ("Command not executed. The user", "The user rejected")
_MOST_PATTERN: Final = 500  # signs of a pattern that a file brings along
_TOOL: Final = "bash"


class MiniSweAgentDecoder(JsonDecoder):
    """Reads ``{"messages": [...], "info": {...}, "trajectory_format": "mini-swe-agent-..."}``.

    An answer with no command, or with more than one, was refused: it is a turn without a call. What stands behind a
    command is its result.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a trajectory, by the name of its format or the agent's version."""
        if not isinstance(data, dict) or not isinstance(data.get("messages"), list):
            return 0.0
        named = str(data.get("trajectory_format", "")).startswith("mini-swe-agent")
        return 1.0 if named or "mini_version" in object_at(data, "info") else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the messages in order, and the end of the run, or raise DecodeError."""
        opened = open_run(data, "a trajectory of mini-swe-agent", "messages")
        config = object_at(object_at(opened.data, "info"), "config")
        name = text_at(opened.data, "instance_id")
        model = text_at(object_at(config, "model"), "model_name")
        labels = {"scenario": label(name), "model": label(model)}
        conversation = Conversation(
            derived_session(record.value, name), labels={key: value for key, value in labels.items() if value}
        )
        reader = _TrajectoryReader(conversation, config, strict_keys=self.strict_keys)
        for number, message in enumerate(opened.messages):
            reader.add(number, message)
        if conversation.events:
            conversation.end(conversation.events[-1].time)
        return conversation.events


class _TrajectoryReader:
    """Adds the messages of one trajectory."""

    def __init__(self, conversation: Conversation, config: dict[str, Json], *, strict_keys: bool) -> None:
        self._conversation = conversation
        self._strict_keys = strict_keys
        self._command = _command_pattern(config)
        self._open: list[str] = []  # calls of the last answer
        self._time: float | None = None
        # How messages begin that the program writes in the user's role when it could not run an answer.
        sections = (object_at(config, "agent"), object_at(config, "model"))
        templates = (text_at(section, "format_error_template").partition("{")[0].strip() for section in sections)
        self._complaints = tuple(template for template in templates if template)

    def add(self, number: int, message: dict[str, Json]) -> None:
        role, extra = message.get("role", message.get("type")), object_at(message, "extra")
        self._time = moment(extra.get("timestamp", object_at(extra, "response").get("created"))) or self._time
        if role == "assistant":
            self._answer(number, message, extra)
        elif role in ("tool", "function_call_output") or (role in ("user", "exit") and self._open):
            self._result(number, message, extra)
        elif role == "user":
            text = text_of(message.get("content"))
            if not (self._complaints and text.lstrip().startswith(self._complaints)):
                self._conversation.user([number, text], text, time=self._time)

    def _answer(self, number: int, message: dict[str, Json], extra: dict[str, Json]) -> None:
        text = text_of(message.get("content"))
        blocks = [block for block in blocks_of(message, strict_keys=self._strict_keys) if block["type"] == "tool_use"]
        if not blocks:
            commands = [text_at(action, "command", "action") for action in objects_in(extra, "actions", "actions")]
            commands = commands or self._written(text)
            blocks = [
                tool_use(f"{number}.{place}", _TOOL, {"command": command}, strict_keys=self._strict_keys)
                for place, command in enumerate(commands)
            ]
        for place, block in enumerate(blocks):
            block["id"] = block["id"] or f"{number}.{place}"
        self._open = [block["id"] for block in blocks]
        response = object_at(extra, "response")
        details = {"usage": response.get("usage")}
        said: list[Json] = [text_block(text)] if text else []
        self._conversation.turn([number, text], [*said, *blocks], extra=details, time=self._time)

    def _written(self, text: str) -> list[str]:
        found = [match.group(1) for match in self._command.finditer(text)]
        return [found[0].strip()] if len(found) == 1 else []

    def _result(self, number: int, message: dict[str, Json], extra: dict[str, Json]) -> None:
        call_id = identifier(message.get("tool_call_id", message.get("call_id")))
        if call_id in self._open:
            self._open.remove(call_id)
        elif self._open:
            call_id = self._open.pop(0)
        if not call_id:
            return
        text = text_of(message.get("content", message.get("output")))
        header: dict[str, Any] = {"time": self._time}
        self._conversation.result([number, text], call_id, text, status=_status(text, extra), tool="", **header)


def _status(text: str, extra: dict[str, Json]) -> ResultStatus:
    if text.startswith(_REFUSED):
        return "blocked"
    code = number_in(extra.get("returncode"))
    if code is None and (found := _RETURN_CODE.search(text[:2000])):
        code = float(found.group(1))
    timed_out = code is None and text.startswith("The last command") and "timed out" in text[:100_000]
    return "error" if code or timed_out or extra.get("exception_info") else "ok"


def _command_pattern(config: dict[str, Json]) -> Any:
    """Return the pattern of a command: the one of the file where it is one that takes linear time, or the usual one."""
    for section in (object_at(config, "model"), object_at(config, "agent")):
        written = text_at(section, "action_regex")
        if written and len(written) <= _MOST_PATTERN:
            options = re2.Options()
            options.log_errors = False
            try:
                pattern = re2.compile(f"(?s){written}", options)
            except re2.error:
                continue
            if pattern.groups == 1:
                return pattern
    return re2.compile(_COMMAND)
