"""What happened, counted in plain numbers; ``metrics`` publishes the differences in batches."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, Literal, TypeAlias, get_args

from stream_guard.model import Event, GateDecision, SessionEnd, ToolCall, ToolResult, Turn, UserMessage

Eviction: TypeAlias = Literal["sessions", "states", "open_calls", "event_ids", "buffered_events", "ended_sessions"]
CloseReason: TypeAlias = Literal["closed", "idle", "end_of_input", "evicted"]
DeadLetterClass: TypeAlias = Literal["decode", "oversize", "limit", "internal"]
DeliveryResult: TypeAlias = Literal["ok", "failed", "rejected"]
ReloadResult: TypeAlias = Literal["ok", "unchanged", "failed"]
ByRule: TypeAlias = Literal["hits", "findings", "unevaluable", "rule_errors"]

EVENT_TYPES: Final[tuple[type[Event], ...]] = (UserMessage, Turn, ToolCall, GateDecision, ToolResult, SessionEnd)


class Counts:
    """Numbers that only grow, except ``sessions`` and ``lag``; whoever sees something happen adds to them.

    The engine adds per event, so these are bare ints and dicts: a metric object here would cost more
    than the rules do. Where the key is a rule, it is the rule's position in ``Policy.rules``; a missing
    key counts as 0, so ``counts.hits[position] += 1`` needs no preparation.
    """

    __slots__ = (
        "alerts",
        "closed",
        "dead_letters",
        "decode_errors",
        "duplicate_events",
        "earlier",
        "events",
        "evictions",
        "fail_open",
        "findings",
        "hits",
        "lag",
        "late_events",
        "merged_calls",
        "policy_reloads",
        "records",
        "rule_errors",
        "sessions",
        "state_resets",
        "suppressed",
        "type_mismatches",
        "unevaluable",
        "unpaired_results",
    )

    def __init__(self) -> None:
        self.records = 0  # read from the sources, whatever became of them
        self.lag = 0  # records that wait in the topics, when last looked
        self.events: dict[type[Event], int] = dict.fromkeys(EVENT_TYPES, 0)  # that rules saw; `[type(event)] += 1`
        self.decode_errors: defaultdict[str, int] = defaultdict(int)  # by format

        self.hits: defaultdict[int, int] = defaultdict(int)  # by rule: what it said, before cooldown and `for`
        self.findings: defaultdict[int, int] = defaultdict(int)  # by rule: what became of the hits, shadow ones too
        self.unevaluable: defaultdict[int, int] = defaultdict(int)  # by rule: events it could not judge
        self.rule_errors: defaultdict[int, int] = defaultdict(int)  # by rule: handlers that raised
        self.earlier: defaultdict[ByRule, int] = defaultdict(int)  # the sums of these for policies that were replaced
        self.policy_reloads: defaultdict[ReloadResult, int] = defaultdict(int)  # changes of the policy file
        self.suppressed = 0  # findings that a cooldown held back
        self.type_mismatches = 0  # attempts a rule let pass because a value had another type than it compares
        self.fail_open = 0  # attempts an inline gate let through although a rule had raised
        self.state_resets = 0  # states forgotten because their rule was edited

        self.sessions = 0  # open now; goes down as well
        self.closed: defaultdict[CloseReason, int] = defaultdict(int)
        self.evictions: defaultdict[Eviction, int] = defaultdict(int)  # a limit of `sessions` settings that bit
        self.late_events = 0  # older than what the session had already judged; judged all the same
        self.duplicate_events = 0  # dropped: the session had seen the event's id
        self.merged_calls = 0  # tool calls that a turn's tool-use block had already announced
        self.unpaired_results = 0  # results no open call was found for

        self.dead_letters: defaultdict[DeadLetterClass, int] = defaultdict(int)
        self.alerts: defaultdict[tuple[str, DeliveryResult], int] = defaultdict(int)  # by sink and what came of it

    def begin_policy(self) -> None:
        """Another policy judges from here on: positions mean other rules, so what was counted by rule is summed up."""
        for name in get_args(ByRule):
            by_rule = getattr(self, name)
            self.earlier[name] += sum(by_rule.values())
            by_rule.clear()

    def total(self, name: ByRule) -> int:
        """Return what was counted over all rules, those of replaced policies too."""
        counted: dict[int, int] = getattr(self, name)
        return self.earlier[name] + sum(counted.values())

    def add(self, other: Counts) -> None:
        """Add what another part of the same work has counted."""
        for name in self.__slots__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, int):
                setattr(self, name, mine + theirs)
                continue
            for key, number in theirs.items():
                mine[key] += number
