"""A loaded policy: its rules, each a kind with parameters and what the engine adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from stream_guard.errors import Place, Problem
from stream_guard.language.conditions import Condition
from stream_guard.model import Action, Json, Scope, Severity
from stream_guard.policy.agents import Agents
from stream_guard.rule import Rule

SESSION_KEY: Final = ("session",)
DEFAULT_IDLE: Final = 1800.0

OnError: TypeAlias = Literal["open", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """One rule of a policy: a kind with parameters, and what belongs to the engine."""

    id: str
    slot: str  # the id, made unique where a dialect lets two rules share one; names states and alert ids
    rule: Rule[Any, Any]
    params: Mapping[str, Json] = field(default_factory=dict)  # as written, for digests and reports
    severity: Severity = Severity.ERROR
    severity_word: str = ""  # the word of the original, where a dialect has other ones
    when: Condition | None = None
    unless: Condition | None = None
    scope: Scope = Scope.TRACE
    key: tuple[str, ...] = SESSION_KEY
    agent: str = ""  # the agent that owns it: it applies to that agent and those below; empty: to all
    then: Action | None = None
    reason: str = ""
    shadow: bool = False
    on_error: OnError = "open"
    cooldown: float | None = None
    hold: float | None = None  # written `for`: it must hit without a break for this long
    tags: tuple[str, ...] = ()
    tests: Sequence[Mapping[str, Json]] = ()
    place: Place = Place()

    @property
    def kind(self) -> str:
        """The name of the rule's kind."""
        return self.rule.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A set of rules that is in force together."""

    rules: tuple[RuleSpec, ...]
    version: str  # a digest of the rules and session settings, independent of the file's form
    name: str = ""
    idle: float = DEFAULT_IDLE  # seconds of event time after which a silent session is over
    max_out_of_orderness: float = 0.0  # seconds an event may be late and still be put in its place
    states_lateness: bool = False  # the file gives ``max_out_of_orderness``; otherwise the format decides
    tool_classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agents: Agents = field(default_factory=Agents)
    warnings: tuple[Problem, ...] = ()
    file: str = ""
