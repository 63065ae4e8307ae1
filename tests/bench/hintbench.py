"""Written-out runs of agents with labelled risks, as events: steps of a user, an agent and an environment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from stream_guard.judge.model import Event, Json, ToolCall, ToolResult, Turn, UserMessage


def events_of(line: bytes) -> Iterator[Event]:
    """Yield the events of a run. An answer of the environment belongs to the call before it."""
    run = json.loads(line)
    session, calls, tool = run["task_id"], 0, ""
    for step in run["trajectory"]:
        said: Any = step.get("content")
        if step["role"] == "user":
            yield UserMessage(session_id=session, text=said)
        elif step["role"] == "environment" and calls:
            yield ToolResult(session_id=session, tool=tool, call_id=f"c{calls}", output=_parsed(said))
        elif step["role"] == "agent":
            if said:
                yield _turn(session, {"type": "text", "text": said})
            call = _parsed(step.get("action") or "")
            if isinstance(call, dict):
                calls, tool = calls + 1, call["name"]
                block = {"type": "tool_use", "id": f"c{calls}", "name": tool, "input": call.get("arguments")}
                yield _turn(session, block)
                yield ToolCall(session_id=session, tool=tool, args=call.get("arguments"), call_id=f"c{calls}")


def _turn(session: str, block: dict[str, Json]) -> Turn:
    return Turn(session_id=session, response={"content": [block]})


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text
