"""A survey of recordings: which agents and tools there are, how often, and with which arguments."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from stream_guard.judge.model import Event, Json, ToolCall, ToolResult, Turn
from stream_guard.judge.spec import DEFAULT_IDLE
from stream_guard.starting.described_tools import described_classes, offered_tools

MOST_TOOLS: Final = 1000  # agents invent names; the rest is counted together
MOST_ARGUMENTS: Final = 50  # of one tool
_HOUR: Final = 3600.0
_IDLE: Final = {f"{hours}h": hours * _HOUR for hours in (1, 2, 4, 8, 12, 24, 48, 72, 120, 192)}
LONGEST_IDLE: Final = 168 * _HOUR  # who comes back after a week begins anew, and a wrong clock is no silence


@dataclass(slots=True)
class ToolUse:
    """How one tool was used."""

    calls: int = 0
    sessions: set[str] = field(default_factory=set)
    arguments: Counter[str] = field(default_factory=Counter)  # names at the top of the arguments, by calls
    described: Mapping[str, str] = field(default_factory=dict)  # classes that its definition speaks for, and why

    def add(self, session_id: str, args: Json) -> None:
        """Count a call."""
        self.calls += 1
        self.sessions.add(session_id)
        for name in args if isinstance(args, dict) else ():
            if name in self.arguments or len(self.arguments) < MOST_ARGUMENTS:
                self.arguments[name] += 1


@dataclass(slots=True)
class Survey:
    """What the events of recordings have in them."""

    events: int = 0
    sessions: set[str] = field(default_factory=set)
    agents: Counter[str] = field(default_factory=Counter)  # by events; the name is empty where the source has none
    tools: dict[str, ToolUse] = field(default_factory=dict)
    longest_silence: float = 0.0  # seconds between two events of one session, of those that count
    _latest: dict[str, float] = field(default_factory=dict)  # by session: its latest time
    _announced: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    _offered: dict[str, Mapping[str, str]] = field(default_factory=dict)  # as ``described``, also of tools not called

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events, and count what is in them."""
        for event in events:
            self.add(event)
            yield event

    def add(self, event: Event) -> None:
        """Count one event."""
        self.events += 1
        self.sessions.add(event.session_id)
        self.agents[event.agent] += 1
        self._note_time(event)
        if isinstance(event, Turn | ToolResult):
            for name, definition in offered_tools(event):
                if name not in self._offered and len(self._offered) < MOST_TOOLS:
                    self._offered[name] = described_classes(definition)
        if isinstance(event, ToolCall):
            self._call(event)
        elif isinstance(event, Turn):
            content = event.response.get("content")
            for block in content if isinstance(content, list) else ():
                if isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("name"), str):
                    self._announced[event.session_id, str(block.get("id"))] += 1
                    self._use(block["name"]).add(event.session_id, block.get("input"))

    def _note_time(self, event: Event) -> None:
        if event.time is None:
            return
        before = self._latest.get(event.session_id, event.time)
        if event.time - before <= LONGEST_IDLE:
            self.longest_silence = max(self.longest_silence, event.time - before)
        self._latest[event.session_id] = max(event.time, before)

    def idle(self) -> str:
        """Return after how long a silence a session is over, so that none of these is cut; empty: as by default."""
        fitting = [text for text, seconds in _IDLE.items() if self.longest_silence < seconds]
        return fitting[0] if self.longest_silence >= DEFAULT_IDLE else ""

    def by_calls(self) -> list[tuple[str, ToolUse]]:
        """Return the tools, the most used first."""
        return sorted(self.tools.items(), key=lambda item: (-item[1].calls, item[0]))

    def _call(self, call: ToolCall) -> None:
        key = (call.session_id, call.call_id)
        if self._announced.get(key):  # the response that asked for it was counted
            self._announced[key] -= 1
            return
        self._use(call.tool).add(call.session_id, call.args)

    def _use(self, tool: str) -> ToolUse:
        if tool not in self.tools:
            if len(self.tools) >= MOST_TOOLS:
                return ToolUse()
            self.tools[tool] = ToolUse()
        use = self.tools[tool]
        use.described = use.described or self._offered.get(tool, {})
        return use
