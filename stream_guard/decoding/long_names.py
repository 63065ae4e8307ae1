"""Names and ids that are too long: they are kept in states, alerts and the history, which nobody may fill with them."""

from __future__ import annotations

from typing import Final

from stream_guard.errors import DecodeError
from stream_guard.judge.model import Event, GateDecision, SessionEnd, ToolCall, ToolResult, Turn, UserMessage

MAX_NAME: Final = 1000  # characters
_NAMES: Final = ("session_id", "event_id", "agent", "run_id", "trace_id", "part", "tool", "call_id")
# By type of event: to ask for a field that is not there takes longer than all the others.
_FIELDS: Final = {
    kind: tuple([name for name in _NAMES if name in kind.__struct_fields__])
    for kind in (UserMessage, Turn, ToolCall, GateDecision, ToolResult, SessionEnd)
}
_MOST_ANCESTORS: Final = 100


def check_names(event: Event) -> None:
    """Raise DecodeError for an event with a name or an id that is too long to be kept."""
    for field in _FIELDS[type(event)]:
        if len(name := getattr(event, field)) > MAX_NAME:
            raise _too_long(field, name)
    if len(event.agent_path) > _MOST_ANCESTORS:
        raise DecodeError(f"agent_path has {len(event.agent_path)} names; {_MOST_ANCESTORS} are read")
    for name in (*event.agent_path, *event.labels):
        if len(name) > MAX_NAME:
            raise _too_long("a name in agent_path or labels", name)


def _too_long(field: str, name: str) -> DecodeError:
    return DecodeError(f"{field} has {len(name)} characters; a name has {MAX_NAME} at most")
