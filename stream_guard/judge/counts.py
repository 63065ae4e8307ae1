"""Counters as plain numbers; ``metrics`` exposes them to Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import inf
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from stream_guard.judge.model import Event, GateDecision, SessionEnd, ToolCall, ToolResult, Turn, UserMessage

Eviction: TypeAlias = Literal[
    "sessions", "states", "open_calls", "event_ids", "buffered_events", "ended_sessions", "session_bytes"
]
CloseReason: TypeAlias = Literal["closed", "idle", "end_of_input", "evicted"]
DeadLetterClass: TypeAlias = Literal["decode", "oversize", "limit", "internal"]
DeliveryResult: TypeAlias = Literal["ok", "failed", "rejected", "retried", "summed"]
InquiryResult: TypeAlias = Literal["broken", "kept", "no_answer", "no_budget"]
ReloadResult: TypeAlias = Literal["ok", "unchanged", "failed"]
RestoreFigure: TypeAlias = Literal["rows", "rows_left", "seconds"]
CopyState: TypeAlias = Literal["complete", "behind"]
ByRule: TypeAlias = Literal["hits", "findings", "unevaluable", "rule_errors"]

DELAY_BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, inf)  # seconds


class ToolTally(dict[str, int]):
    """Attempts by tool. Agents choose the names: when there are too many, those that were rare are forgotten."""

    LIMIT: ClassVar = 1000

    def __missing__(self, tool: str) -> int:
        if len(self) >= self.LIMIT:
            kept = sorted(self.items(), key=lambda item: -item[1])[: self.LIMIT // 2]
            self.clear()
            self.update(kept)
        return 0


class Counts:
    """Numbers that only grow, except those that say how it is now. All parts of a process add to them directly.

    The engine adds at every event, so these are plain ints and dicts: a metric object would cost more than the rules.
    Where the key is a rule, it is the rule's position in ``Policy.rules``. A missing key counts as 0, so
    ``counts.hits[position] += 1`` needs no preparation.
    """

    def __init__(self) -> None:
        self.records = 0  # read from the sources
        self.redriven_records = 0  # of those, dead letters that came back
        self.lag = 0  # records that wait in the topics, when last measured
        self.partition_lag: defaultdict[tuple[str, str], int] = defaultdict(int)  # by topic and partition of ours
        self.rebalances = 0  # times that partitions were handed out anew
        self.restore: defaultdict[RestoreFigure, float] = defaultdict(float)  # of the states that were restored last
        self.copies: defaultdict[CopyState, int] = defaultdict(int)  # partitions of others whose states are here
        self.state_bytes = 0  # of all stored sessions, when last measured
        self.durable_at = 0.0  # when the latest batch became durable; 0: none yet
        # Events that were judged, by type.
        self.events: dict[type[Event], int] = dict.fromkeys(
            (UserMessage, Turn, ToolCall, GateDecision, ToolResult, SessionEnd), 0
        )
        self.decode_errors: defaultdict[str, int] = defaultdict(int)  # by format

        self.hits: defaultdict[int, int] = defaultdict(int)  # by rule: hits, before the cooldown
        self.findings: defaultdict[int, int] = defaultdict(int)  # by rule: findings, those of shadow rules too
        self.unevaluable: defaultdict[int, int] = defaultdict(int)  # by rule: events it could not judge
        self.lacking: defaultdict[tuple[str, str], int] = defaultdict(int)  # the same by rule id and what was missing
        self.rule_errors: defaultdict[int, int] = defaultdict(int)  # by rule: handlers that raised
        self.replaced_policies: defaultdict[ByRule, int] = defaultdict(int)  # sums of the above for replaced policies
        self.policy_reloads: defaultdict[ReloadResult, int] = defaultdict(int)  # changes of the policy file
        self.inquiries: defaultdict[tuple[str, InquiryResult], int] = defaultdict(
            int
        )  # to judges, by rule id and answer
        self.judge_dollars: defaultdict[str, float] = defaultdict(float)  # what they cost, by rule id
        self.suppressed = 0  # findings that a cooldown held back
        self.type_mismatches = 0  # attempts that passed because a value had another type than the rule compares
        self.fail_open = 0  # attempts that passed an inline gate although a rule raised
        self.state_resets = 0  # states forgotten because their rule was edited

        self.sessions = 0  # open now; goes down as well
        self.closed: defaultdict[CloseReason, int] = defaultdict(int)
        self.evictions: defaultdict[Eviction, int] = defaultdict(int)  # by limit that was reached
        self.late_events = 0  # older than what the session had already judged; judged all the same
        self.duplicate_events = 0  # dropped: the session had seen the event's id
        self.changed_events = 0  # came under an id that stood for something else; judged under an id of their own
        self.disbelieved_times = 0  # stamps that moved no clock; the event was judged all the same
        self.disbelieved_ends = 0  # ends by somebody who may not end the session, after which it went on
        self.merged_calls = 0  # views of a tool call that was counted already
        self.orphan_spans = 0  # spans that were told without a span around them, which had not come
        self.lookalike_names = 0  # attempts under a name that only looks like a known one
        self.contested_calls = 0  # tool calls on whose arguments common readers differ
        self.unpaired_results = 0  # results no open call was found for

        self.tools = ToolTally()  # attempts by tool
        self.paths: defaultdict[tuple[str, str], int] = defaultdict(
            int
        )  # seen, by rule id and path it cannot do without
        self.fields: defaultdict[str, int] = defaultdict(int)  # arguments there were where a path was looked for
        self.texts: defaultdict[str, int] = defaultdict(int)  # by rule id: texts in which a pattern of its occurred

        self.dead_letters: defaultdict[DeadLetterClass, int] = defaultdict(int)
        self.alerts: defaultdict[tuple[str, DeliveryResult], int] = defaultdict(int)  # by sink and result
        # Seconds from an event to its alert at the sink: by sink and bucket, and their sum by sink.
        self.alert_delays: defaultdict[tuple[str, float], int] = defaultdict(int)
        self.alert_delay_sums: defaultdict[str, float] = defaultdict(float)
        self.outbox: defaultdict[tuple[str, str], int] = defaultdict(int)  # in the outbox now, by sink and state
        self.outbox_oldest: defaultdict[str, float] = defaultdict(float)  # since when the oldest waits; 0: none

    def begin_policy(self) -> None:
        """Begin a new policy: positions mean other rules now, so the counts by rule move into sums."""
        for name in get_args(ByRule):
            by_rule = getattr(self, name)
            self.replaced_policies[name] += sum(by_rule.values())
            by_rule.clear()

    def total(self, name: ByRule) -> int:
        """Return the count over all rules, those of replaced policies too."""
        counted: dict[int, int] = getattr(self, name)
        return self.replaced_policies[name] + sum(counted.values())

    def add(self, other: Counts) -> None:
        """Add the counts of another process or part of the same run."""
        for name in vars(self):
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, int | float):
                setattr(self, name, mine + theirs)
                continue
            for key, number in theirs.items():
                mine[key] += number

    def take(self, other: Counts) -> None:
        """Move the counts of another engine of this process here, but for those by rule: its rules are others."""
        for name in vars(self):
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, int | float):
                setattr(self, name, mine + theirs)
                setattr(other, name, type(theirs)())
            elif name not in get_args(ByRule):
                for key, number in theirs.items():
                    mine[key] += number
                theirs.update(dict.fromkeys(theirs, 0))

    def note_sent(self, sink: str, event_times: Iterable[float | None], now: float) -> None:
        """Take note that a sink has alerts about events of these times; without a time there is no delay to tell."""
        for time in event_times:
            if time is not None:
                delay = max(0.0, now - time)
                self.alert_delays[sink, next(bound for bound in DELAY_BOUNDS if delay <= bound)] += 1
                self.alert_delay_sums[sink] += delay
