"""Backtests: which alerts a change of policy adds and removes, and how right they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set

import msgspec

from stream_guard.alerting.alerts import make_alert
from stream_guard.analysis.labels import Labels, is_bad
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert, Event, Finding
from stream_guard.judge.spec import Policy
from stream_guard.settings import SessionLimits


class RuleScore(msgspec.Struct, frozen=True, kw_only=True):
    """How right a rule is, session by session; None where nothing could be counted."""

    rule_id: str
    precision: float | None  # of the labelled sessions it fires in, those that are bad
    recall: float | None  # of the bad sessions, those it fires in
    benign_alert_rate: float | None  # of the sessions that are fine, those it fires in
    sessions: int  # labelled sessions it fires in


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between the alerts of two policies."""

    added: tuple[Alert, ...]
    removed: tuple[Alert, ...]
    kept: int
    shadow: int = 0  # findings of the new policy that are left out because its rules are in shadow mode
    old_scores: tuple[RuleScore, ...] = ()
    new_scores: tuple[RuleScore, ...] = ()


def compare_policies(
    events: Iterable[Event],
    new: Policy,
    old: Policy,
    *,
    labels: Labels | None = None,
    limits: SessionLimits | None = None,
    sent_only: bool = False,
) -> Backtest:
    """Judge the events by both policies, reading them once, and return what differs.

    An alert is the same when it comes from the same rule at the same event of the same session; words and
    severities may differ. Rules in shadow mode are counted like any other: a backtest is what they are for. With
    ``sent_only``, they send nothing here either: a rule that leaves shadow mode adds alerts, and one that enters it
    removes them.
    """
    judges = [Judge(policy, limits) for policy in (old, new)]
    found: list[list[Finding]] = [[], []]
    for event in events:
        for judge, findings in zip(judges, found, strict=True):
            findings.extend(judge.feed(event).findings)
    for judge, findings in zip(judges, found, strict=True):
        findings.extend(judge.end())
    shadow = sum(finding.shadow for finding in found[1]) if sent_only else 0
    if sent_only:
        found = [[finding for finding in side if not finding.shadow] for side in found]
    removed, added = _only(found[0], found[1]), _only(found[1], found[0])
    return Backtest(
        added=tuple(make_alert(finding, new.version) for finding in added),
        removed=tuple(make_alert(finding, old.version) for finding in removed),
        kept=len(found[1]) - len(added),
        shadow=shadow,
        old_scores=_scores(old, found[0], labels),
        new_scores=_scores(new, found[1], labels),
    )


def _only(findings: Sequence[Finding], others: Sequence[Finding]) -> list[Finding]:
    left = Counter(map(_place, others))
    kept = []
    for finding in findings:
        if left[_place(finding)] > 0:
            left[_place(finding)] -= 1
        else:
            kept.append(finding)
    return kept


def _place(finding: Finding) -> tuple[str, str, str, str]:
    return finding.slot, finding.session_id, finding.event_id, finding.part


def _scores(policy: Policy, findings: Iterable[Finding], labels: Labels | None) -> tuple[RuleScore, ...]:
    if labels is None:
        return ()
    fired: defaultdict[str, set[str]] = defaultdict(set)
    for finding in findings:
        fired[finding.rule_id].add(finding.session_id)
    return tuple(_score(rule.id, fired[rule.id], labels) for rule in policy.rules)


def _score(rule_id: str, fired: Set[str], labels: Labels) -> RuleScore:
    bad = {name for name, label in labels.items() if is_bad(label, rule_id)}
    hit = fired & labels.keys()
    fine = labels.keys() - bad
    return RuleScore(
        rule_id=rule_id,
        precision=len(hit & bad) / len(hit) if hit else None,
        recall=len(hit & bad) / len(bad) if bad else None,
        benign_alert_rate=len(hit & fine) / len(fine) if fine else None,
        sessions=len(hit),
    )
