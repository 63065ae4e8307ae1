"""What the tracker writes on events before rules see them. The compiled build has it in C (stamps.c)."""

from __future__ import annotations

from msgspec.structs import force_setattr

from stream_guard.engine.names import SeenName
from stream_guard.model import Json, ToolCall, ToolResult, Turn
from stream_guard.sessions.stored import OpenCall


def stamp_turn(
    turn: Turn, content: Json, index: int, names: dict[str, SeenName | None]
) -> list[dict[str, Json]] | None:
    """Number a turn, join its text and name its tools; return its tool-use blocks, if it has any."""
    text = ""
    blocks: list[dict[str, Json]] = []
    if type(content) is list:
        for block in content:
            if type(block) is dict:
                kind = block.get("type")
                if kind == "text":
                    piece = block.get("text")
                    if type(piece) is str:
                        text = f"{text}\n{piece}" if text else piece
                elif kind == "tool_use":
                    blocks.append(block)
    elif type(content) is str:
        text = content
    if text or turn.text:
        force_setattr(turn, "text", text)
    if blocks or turn.tools:
        force_setattr(turn, "tools", tuple([_tool(block, names) for block in blocks]))
    force_setattr(turn, "index", index)
    return blocks or None


def _tool(block: dict[str, Json], names: dict[str, SeenName | None]) -> str:
    written = block.get("name")
    if type(written) is not str:
        written = ""
    name = names[written]
    return written if name is None else name.tool


def call_in(
    turn: Turn, number: int, tool: str, call_id: str, args: Json, parse_error: bool, contested: str
) -> ToolCall:
    """Return the call that a block of a turn announces; its arguments may have been read from a text."""
    return ToolCall(
        session_id=turn.session_id,
        event_id=f"{turn.event_id}/{number}",
        time=turn.time,
        trace_id=turn.trace_id,
        run_id=turn.run_id,
        agent=turn.agent,
        agent_path=turn.agent_path,
        labels=turn.labels,
        part=turn.part,
        captured=turn.captured,
        tool=tool,
        call_id=call_id,
        args=args,
        parse_error=parse_error,
        contested=contested,
    )


def stamp_call(call: ToolCall, opened: OpenCall) -> None:
    """Number a call as the attempt that it is."""
    force_setattr(call, "index", opened.index)
    force_setattr(call, "attempt", opened.attempt)


def stamp_result(result: ToolResult, call: OpenCall) -> None:
    """Number a result as the attempt that it answers, and give it the arguments of that."""
    force_setattr(result, "index", call.index)
    force_setattr(result, "attempt", call.attempt)
    force_setattr(result, "args", call.args)
