"""A loaded policy: its rules, each a kind with parameters and what the engine adds, and its version."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from stream_guard.judge.conditions import Condition
from stream_guard.judge.errors import Place, Problem
from stream_guard.judge.model import Action, Event, GateDecision, Json, Scope, Severity, ToolCall, ToolResult
from stream_guard.judge.patterns import Regex
from stream_guard.judge.rule import Rule

ExecutionMode: TypeAlias = Literal["request", "hitl", "sub_agent"]

_OF_A_TOOL: Final = (ToolCall, GateDecision, ToolResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAgent:
    """One agent, or one version of it."""

    parent: str = ""  # the agent above it, empty for a root
    operations: frozenset[str] | None = None  # the tools it may try; None: any
    execution_mode: ExecutionMode | None = None  # in `request` mode nobody reviews a paused attempt


@dataclass(frozen=True, slots=True)
class Agents:
    """All agents of a policy. A policy without agents governs every agent alike."""

    declared: Mapping[str, PolicyAgent] = field(default_factory=dict)  # by name, in the order of the file

    def __bool__(self) -> bool:
        return bool(self.declared)

    def items(self) -> Iterator[tuple[str, PolicyAgent]]:
        """Yield every agent with its name, in the order of the file."""
        yield from self.declared.items()

    def named(self, agent: str) -> str | None:
        """Return the declared name of an event's agent: with its version, or without it; None when it is unknown."""
        if agent in self.declared:
            return agent
        name = agent.partition("@")[0]
        return name if name in self.declared else None

    def lineage(self, name: str) -> tuple[str, ...]:
        """Return the agents from the root down to this one."""
        line = [name]
        while (parent := self.declared[line[-1]].parent) and parent in self.declared and parent not in line:
            line.append(parent)
        return tuple(reversed(line))

    def lists(self, event: Event) -> bool:
        """Whether the event's agent is known and, where the event names a tool, may try it."""
        name = self.named(event.agent)
        if name is None:
            return False
        tools = self.declared[name].operations
        return tools is None or not isinstance(event, _OF_A_TOOL) or event.tool in tools

    def governs(self, owner: str) -> Callable[[Event], bool]:
        """Return the test of whether the rules of ``owner`` apply to an event.

        They apply when the event's agent is the owner or below it, and may try the tool. An agent is below the
        owner in the policy, or by the ``agent_path`` of the event.
        """
        reach = {name for name in self.declared if owner in self.lineage(name)}
        # Only declared names: names that agents invent must not grow this.
        quick = {name: self.declared[name].operations for name in reach}

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
        lists = [agent.operations for name, agent in self.declared.items() if owner in self.lineage(name)]
        listed = [tools for tools in lists if tools is not None]
        return frozenset().union(*listed) if len(listed) == len(lists) else None

    def effective_order(self, owner: str) -> int:
        """Return the sort key of a rule by its owner: the policy's own first, then the root's, down to the agent's."""
        return len(self.lineage(owner)) if owner in self.declared else 0


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """One change: of the value at a path, or of all arguments where there is no path."""

    path: str
    word: str  # cap, mask, drop or set
    value: Json  # what was written beside the word
    pattern: Regex | None = None  # of mask

    @property
    def source(self) -> dict[str, Json]:
        """The change as it is written in a policy."""
        return {**({"path": self.path} if self.path else {}), self.word: self.value}

    @property
    def words(self) -> str:
        """What an argument has to be to need no change."""
        where = self.path or "the arguments"
        said = {
            "cap": f"{where} of at most {self.value}",
            "drop": f"no {where}",
            "mask": f"{where} without what is masked",
        }
        return said.get(self.word) or f"{where} set to {json.dumps(self.value)}"


SESSION_KEY: Final = ("session",)
ALL_KEY: Final = "all"  # the part of a key that says: everything together, across sessions
DEFAULT_IDLE: Final = 1800.0

OnError: TypeAlias = Literal["open", "closed"]
OnUnevaluable: TypeAlias = Literal["stop", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """One rule of a policy: a kind with parameters, and what belongs to the engine."""

    id: str
    slot: str  # the id, made unique where a dialect lets two rules share one; names states and alert ids
    rule: Rule[Any, Any]
    params: Mapping[str, Json] = field(default_factory=dict)  # as written, for digests and reports
    taken_in: Mapping[str, Json] = field(default_factory=dict)  # of classes, agents and files, for digests
    severity: Severity = Severity.ERROR
    severity_word: str = ""  # the word of the original, where a dialect has other ones
    when: Condition | None = None
    unless: Condition | None = None
    scope: Scope = Scope.SESSION
    key: tuple[str, ...] = SESSION_KEY
    agent: str = ""  # the agent that owns it: it applies to that agent and those below; empty: to all
    then: Action | None = None
    changes: tuple[ArgumentChange, ...] = ()  # with `then: modify`, which is a block where a call cannot be changed
    reason: str = ""
    shadow: bool = False
    on_error: OnError = "open"
    on_unevaluable: OnUnevaluable = "stop"
    cooldown: float | None = None
    hold: float | None = None  # written `for`: it must hit without a break for this long
    set_labels: Mapping[str, str] = field(default_factory=dict)  # on the session, when it fires, from the next event on
    tags: tuple[str, ...] = ()
    tests: Sequence[Mapping[str, Json]] = ()
    test_places: Sequence[Place] = ()
    place: Place = Place()

    @property
    def kind(self) -> str:
        """The name of the rule's kind."""
        return self.rule.kind

    @property
    def then_word(self) -> str | None:
        """What the gate does when the rule fires, as it is written."""
        return "modify" if self.changes else None if self.then is None else self.then.word

    @property
    def stops(self) -> bool:
        """Whether an inline gate holds an attempt back when the rule fires."""
        return not self.shadow and self.then is not None and self.then is not Action.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A set of rules that is in force together."""

    rules: tuple[RuleSpec, ...]
    version: str  # a digest of the rules and session settings, independent of the file's form
    name: str = ""
    idle: float = DEFAULT_IDLE  # seconds of event time after which a silent session is over
    max_out_of_orderness: float = 0.0  # seconds an event may be late and still be put in its place
    states_lateness: bool = False  # the file gives ``max_out_of_orderness``; otherwise the format content
    tool_classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agents: Agents = field(default_factory=Agents)
    masked_arguments: tuple[str, ...] = ()  # names of arguments that reviewers are not shown
    by_tenant: bool = False  # rules across sessions keep apart what is of different tenants; settings say so, not files
    warnings: tuple[Problem, ...] = ()
    file: str = ""

    @property
    def stops(self) -> bool:
        """Whether any rule holds attempts back; a policy that only watches never does."""
        return any(rule.stops for rule in self.rules)

    @property
    def asks(self) -> bool:
        """Whether any rule asks a judge."""
        return any(rule.rule.asks for rule in self.rules)
