"""The agents of a policy: their hierarchy, the tools each may try, and the rules that govern their attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from stream_guard.model import Event, GateDecision, ToolCall, ToolResult

ExecutionMode: TypeAlias = Literal["request", "hitl", "sub_agent"]

_OF_A_TOOL: Final = (ToolCall, GateDecision, ToolResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAgent:
    """One agent, or one version of it."""

    parent: str = ""  # the agent above it, empty for a root
    operations: frozenset[str] | None = None  # the tools it may try; None: any
    execution_mode: ExecutionMode | None = None  # in `request` mode nobody reviews a paused attempt


class Agents:
    """All agents of a policy. A policy without agents governs every agent alike."""

    __slots__ = ("_agents",)

    def __init__(self, agents: Mapping[str, PolicyAgent] | None = None) -> None:
        self._agents = dict(agents or {})

    def __bool__(self) -> bool:
        return bool(self._agents)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agents) and other._agents == self._agents

    __hash__ = None  # type: ignore[assignment]

    def items(self) -> Iterator[tuple[str, PolicyAgent]]:
        """Yield every agent with its name, in the order of the file."""
        yield from self._agents.items()

    def named(self, agent: str) -> str | None:
        """Return the declared name of an event's agent: with its version, or without it; None when it is unknown."""
        if agent in self._agents:
            return agent
        name = agent.partition("@")[0]
        return name if name in self._agents else None

    def lineage(self, name: str) -> tuple[str, ...]:
        """Return the agents from the root down to this one."""
        line = [name]
        while (parent := self._agents[line[-1]].parent) and parent in self._agents and parent not in line:
            line.append(parent)
        return tuple(reversed(line))

    def lists(self, event: Event) -> bool:
        """Whether the event's agent is known and, where the event names a tool, may try it."""
        name = self.named(event.agent)
        if name is None:
            return False
        tools = self._agents[name].operations
        return tools is None or not isinstance(event, _OF_A_TOOL) or event.tool in tools

    def governs(self, owner: str) -> Callable[[Event], bool]:
        """Return the test of whether the rules of ``owner`` apply to an event.

        They apply when the event's agent is the owner or below it, and may try the tool. An agent is below the
        owner in the policy, or by the ``agent_path`` of the event.
        """
        reach = {name for name in self._agents if owner in self.lineage(name)}
        # Only declared names: names that agents invent must not grow this.
        quick = {name: self._agents[name].operations for name in reach}

        def governed(event: Event) -> bool:
            tools = quick.get(event.agent)
            if tools is not None and type(event) is ToolCall:
                return event.tool in tools
            name = self.named(event.agent)
            below = name in reach or any(self.named(above) == owner for above in event.agent_path)
            return below and self.lists(event)

        return governed

    def judges(self, owner: str) -> Callable[[Event], bool | None]:
        """Return the test that ``governs`` is, with None where the policy does not know the event's agent."""
        governs = self.governs(owner)
        return lambda event: governs(event) if self.named(event.agent) is not None else None

    def tools_below(self, owner: str) -> frozenset[str] | None:
        """Return the tools that the agent and those below it may try; None when one of them may try any."""
        lists = [agent.operations for name, agent in self._agents.items() if owner in self.lineage(name)]
        listed = [tools for tools in lists if tools is not None]
        return frozenset().union(*listed) if len(listed) == len(lists) else None

    def effective_order(self, owner: str) -> int:
        """Return the sort key of a rule by its owner: the policy's own first, then the root's, down to the agent's."""
        return len(self.lineage(owner)) if owner in self._agents else 0
