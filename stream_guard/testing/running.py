"""Run one rule over one trace, without a policy file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from stream_guard.judge.conditions import Condition
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding, Json, Scope, Severity
from stream_guard.judge.rule import RuleType
from stream_guard.judge.spec import SESSION_KEY, Policy, RuleSpec
from stream_guard.testing.shorthand import events


def rule_spec(
    kind: RuleType,
    params: Mapping[str, Json],
    *,
    rule_id: str = "rule",
    when: Json = None,
    unless: Json = None,
    scope: str = "session",
    key: Sequence[str] = SESSION_KEY,
    context: Mapping[str, Any] | None = None,
    **engine: Any,
) -> RuleSpec:
    """Return a rule as the engine takes it; ``engine`` may hold any other field of RuleSpec."""
    engine.setdefault("severity", Severity.ERROR)
    return RuleSpec(
        id=rule_id,
        slot=rule_id,
        rule=kind(kind.params_type.model_validate(deepcopy(dict(params)), context=dict(context or {}))),
        params=params,
        when=None if when is None else Condition(when),
        unless=None if unless is None else Condition(unless),
        scope=Scope(scope),
        key=tuple(key),
        **engine,
    )


def one_rule_policy(kind: RuleType, params: Mapping[str, Json], **engine: Any) -> Policy:
    """Return a policy of a single rule."""
    return Policy(rules=(rule_spec(kind, params, **engine),), version="test")


def run_rule(
    kind: RuleType,
    params: Mapping[str, Json],
    trace: Iterable[Mapping[str, Json]],
    *,
    counts: Counts | None = None,
    **engine: Any,
) -> list[tuple[int | str, str]]:
    """Return the findings of the rule as ``(position in the trace, detail)``.

    The position is ``"end"`` for a finding at the end of the session, and ``"deadline"`` for one at a deadline.

    >>> run_rule(MustCallBefore, {"first": "confirm", "second": "refund"}, calls("refund"))  # doctest: +SKIP
    [(0, 'refund was called before confirm')]
    """
    return [(at, finding.detail) for at, finding in find(one_rule_policy(kind, params, **engine), trace, counts=counts)]


def find(
    policy: Policy, trace: Iterable[Mapping[str, Json]], *, counts: Counts | None = None
) -> list[tuple[int | str, Finding]]:
    """Return every finding of a policy in a trace, with the position of the event that it is about."""
    judge = Judge(policy, counts=counts)
    positions: dict[str, int] = {}
    found: list[Finding] = []
    given = events(trace)
    judge.tell_names(lambda event, name: positions.__setitem__(name, given.index(event)))
    for position, event in enumerate(given):
        positions[event.event_id] = position
        found += judge.feed(event).findings
    found += judge.end()
    return [(_place_of(finding, positions), finding) for finding in found]


def _place_of(finding: Finding, positions: Mapping[str, int]) -> int | str:
    """Return the position of the event that a finding is about; a call may stand in a turn, whose id its own has."""
    if finding.at != "event":
        return finding.at
    event_id = finding.event_id
    return positions[event_id] if event_id in positions else positions[event_id.rpartition("/")[0]]
