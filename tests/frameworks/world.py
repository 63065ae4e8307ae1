"""One gate for the tests of all frameworks: four tools, four answers, and a note of what really ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import stream_guard as sg
from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.testing import rule_spec

KINDS = build_registry().kinds
TOOLS = ("read", "drop", "pay", "leak")
ANSWERS = {"drop": Action.BLOCK, "pay": Action.PAUSE, "leak": Action.TERMINATE_SESSION}


class World:
    """A gate, what it told the stream, and what ran behind it."""

    def __init__(self, gate: Gate, emitted: list[sg.Event]) -> None:
        self.gate = gate
        self.emitted = emitted
        self.ran: list[str] = []

    def run(self, tool: str) -> str:
        """Be a tool."""
        self.ran.append(tool)
        return f"{tool} is done"

    def approve(self) -> None:
        """Be the person who is asked."""
        [review] = self.gate.reviews.listing("open")
        self.gate.reviews.approve(review.id, by="ada", arguments_digest=review.arguments_digest)

    def told(self) -> list[tuple[str, str, str]]:
        """Return the canonical events: kind, tool, and what was decided or came of it."""
        return [
            (str(event.__struct_config__.tag), event.tool, getattr(event, "action", getattr(event, "status", "")))
            for event in self.emitted
            if isinstance(event, sg.ToolCall | sg.GateDecision | sg.ToolResult)
        ]


@contextmanager
def watched(folder: Path) -> Iterator[World]:
    """Open a gate over a history of its own."""
    rules = tuple(
        rule_spec(KINDS["no_call"], {"tool": tool}, rule_id=tool, then=then, reason=f"{tool} is watched")
        for tool, then in ANSWERS.items()
    )
    database = SqliteDatabase(folder / "history.db")
    emitted: list[sg.Event] = []
    try:
        yield World(Gate(Policy(rules=rules, version="v1"), database, emit=emitted.append), emitted)
    finally:
        database.close()


def story(tool: str, action: str, status: str) -> list[tuple[str, str, str]]:
    """Return the canonical events of one attempt."""
    return [("tool_call", tool, ""), ("decision", tool, action), ("tool_result", tool, status)]
