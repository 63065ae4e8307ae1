"""Metrics for Prometheus: the counts, read at every scrape, and the duration of batches.

Names start with ``stream_guard_``. Labels come from closed sets: kinds of events, ids of the policy's
rules, names of formats and sinks. Never a session, a user, or text.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from typing import Final, TypeAlias, TypeVar, get_args

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from stream_guard.distribution import own_version
from stream_guard.judge.counts import (
    DELAY_BOUNDS,
    CloseReason,
    CopyState,
    Counts,
    DeadLetterClass,
    Eviction,
    ReloadResult,
    RestoreFigure,
)
from stream_guard.judge.model import Event
from stream_guard.judge.spec import RuleSpec

Labels: TypeAlias = tuple[str, ...]
Word = TypeVar("Word", bound=str)

_BATCH_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_RESTORE: Final[dict[RestoreFigure, str]] = {
    "rows": "Rows of states read in the latest restore",
    "rows_left": "Rows of states that are still to be read",
    "seconds": "Time that the latest restore has taken",
}
_RESULTS: Final = {"fail": "hits", "unevaluable": "unevaluable", "error": "rule_errors"}


class Metrics(Collector):
    """Exposes a ``Counts`` to a registry; counting stays as cheap as an addition.

    The code that runs batches calls ``metrics.batch_seconds.observe(seconds)``.
    """

    def __init__(self, counts: Counts, registry: CollectorRegistry) -> None:
        self._counts = counts
        self._rules: tuple[tuple[str, str], ...] = ()  # id and severity, by position in the policy
        self._shadow: frozenset[str] = frozenset()  # rules of these ids are in shadow mode
        self._finished: defaultdict[tuple[str, Labels], int] = defaultdict(int)  # of replaced policies
        self._beside: list[tuple[tuple[tuple[str, str], ...], Counts]] = []  # the same of policies with own counts
        self.batch_seconds = Histogram(
            "stream_guard_batch_seconds",
            "Time to judge one batch of records",
            buckets=_BATCH_SECONDS,
            registry=registry,
        )
        registry.register(self)

    def use_rules(self, rules: Iterable[RuleSpec]) -> None:
        """Set the rules behind the positions in the counts. Earlier counts stay with the earlier rules.

        Call it when a policy is loaded, before the first event it judges.
        """
        for (name, labels), value in self._by_rule().items():
            self._finished[name, labels] = value
        self._counts.begin_policy()
        self._rules = self._name(tuple(rules))

    def add_rules(self, rules: Sequence[RuleSpec], counts: Counts, *, latest: bool = True) -> None:
        """Count the rules of a policy with counts of its own, which is in force beside others, for good or yet."""
        if latest:
            self._beside = [*self._beside, (self._name(rules), counts)]
        else:
            self._beside = [(_named(rules), counts), *self._beside]

    def end_rules(self, counts: Counts) -> None:
        """Take what the rules of a policy had counted into the sums: it is not in force any more."""
        ended = [(rules, own) for rules, own in self._beside if own is counts]
        finished, beside = _sum_by_rule(self._finished, ended), [one for one in self._beside if one[1] is not counts]
        self._finished, self._beside = finished, beside

    def _name(self, rules: Sequence[RuleSpec]) -> tuple[tuple[str, str], ...]:
        # Of two rules that share an id, one that is not in shadow mode counts.
        self._shadow = frozenset(rule.id for rule in rules).difference(rule.id for rule in rules if not rule.shadow)
        return _named(rules)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric as it is now."""
        yield from self._input()
        yield from self._sessions()
        yield from self._rule_metrics()
        yield from self._output()
        yield InfoMetricFamily("stream_guard_build", "What is running", value={"version": own_version()})

    def _input(self) -> Iterator[Metric]:
        counts = self._counts
        yield _total("records", "Records read from sources", counts.records)
        yield GaugeMetricFamily("stream_guard_lag_records", "Records that wait in topics", value=counts.lag)
        yield _gauge(
            "partition_lag_records",
            "Records that wait, by partition of this worker",
            ("topic", "partition"),
            dict(counts.partition_lag).items(),
        )
        yield _total("rebalances", "Times that partitions were handed out anew", counts.rebalances)
        events: dict[Labels, int] = {(_tag(kind),): number for kind, number in dict(counts.events).items()}
        yield _labelled("events", "Events judged", ("kind",), events)
        yield _labelled(
            "decode_errors", "Records that could not become events", ("format",), _by_word(counts.decode_errors)
        )
        letters = _by_word(counts.dead_letters, get_args(DeadLetterClass))
        yield _labelled("dead_letters", "Records that were buried", ("class",), letters)
        yield _total("redriven_records", "Dead letters that came back", counts.redriven_records)
        yield _total("late_events", "Events older than what their session had already judged", counts.late_events)
        yield _total("changed_events", "Events under an id that stood for another event", counts.changed_events)
        yield _total("disbelieved_times", "Stamps that no clock was moved by", counts.disbelieved_times)
        yield _total(
            "disbelieved_ends",
            "Ends of sessions by agents that may not end them, after which they went on",
            counts.disbelieved_ends,
        )
        yield _total("duplicate_events", "Events dropped because their session had seen them", counts.duplicate_events)
        yield _total(
            "merged_calls",
            "Views of tool calls that were counted already",
            counts.merged_calls,
        )
        yield _total("orphan_spans", "Spans judged without a span around them", counts.orphan_spans)
        yield _total(
            "lookalike_names", "Attempts under a name that only looks like a known one", counts.lookalike_names
        )
        contested = counts.contested_calls
        yield _total("contested_calls", "Tool calls on whose arguments common readers differ", contested)
        yield _total("unpaired_results", "Tool results without an open call", counts.unpaired_results)

    def _sessions(self) -> Iterator[Metric]:
        counts = self._counts
        yield GaugeMetricFamily("stream_guard_sessions", "Sessions open now", value=counts.sessions)
        yield _labelled(
            "session_closes", "Sessions closed", ("reason",), _by_word(counts.closed, get_args(CloseReason))
        )
        evictions = _by_word(counts.evictions, get_args(Eviction))
        yield _labelled("evictions", "Times a limit on what is remembered bit", ("what",), evictions)
        yield _total("state_resets", "States forgotten because their rule was edited", counts.state_resets)
        yield GaugeMetricFamily(
            "stream_guard_state_bytes", "Stored sessions, when last measured", value=counts.state_bytes
        )
        copies = _by_word(counts.copies, get_args(CopyState)).items()
        yield _gauge("copies", "Partitions of other workers whose states are kept here", ("state",), copies)
        for figure, text in _RESTORE.items():
            yield GaugeMetricFamily(f"stream_guard_restore_{figure}", text, value=counts.restore.get(figure, 0.0))
        age = time.time() - counts.durable_at if counts.durable_at else 0.0
        yield GaugeMetricFamily(
            "stream_guard_checkpoint_age_seconds", "Since the latest batch became durable", value=max(0.0, age)
        )

    def _rule_metrics(self) -> Iterator[Metric]:
        numbers = self._by_rule()
        for name, text, labels in (
            ("findings", "Findings by rule, those of shadow rules too", ("rule", "severity")),
            ("rule_results", "What rules said: fail, unevaluable or error", ("rule", "result")),
        ):
            yield _labelled(name, text, labels, {key[1]: value for key, value in numbers.items() if key[0] == name})
        yield from self._judge_metrics()
        yield _total("suppressed", "Findings held back by a cooldown", self._counts.suppressed)
        mismatches = self._counts.type_mismatches
        yield _total("type_mismatches", "Attempts that passed because a value had another type", mismatches)
        yield _total("fail_open", "Attempts let through although a rule had raised", self._counts.fail_open)
        reloads = _by_word(self._counts.policy_reloads, get_args(ReloadResult))
        yield _labelled("policy_reloads", "Changes of the policy file, and what came of them", ("result",), reloads)
        loaded = self._beside[-1][0] if self._beside else self._rules
        yield GaugeMetricFamily("stream_guard_rules_loaded", "Rules in force", value=len(loaded))
        shadow = GaugeMetricFamily("stream_guard_shadow_rules", "Rules in shadow mode, 1 for each", labels=("rule",))
        for rule_id in sorted(self._shadow):
            shadow.add_metric((rule_id,), 1)
        yield shadow

    def _judge_metrics(self) -> Iterator[Metric]:
        asked, spent = dict(self._counts.inquiries), dict(self._counts.judge_dollars)
        by_rule: dict[Labels, int] = {(rule, result): number for (rule, result), number in asked.items()}
        yield _labelled("inquiries", "Questions of rules to a judge, and what it said", ("rule", "result"), by_rule)
        dollars = CounterMetricFamily("stream_guard_judge_dollars", "What questions to a judge cost", labels=("rule",))
        for rule in sorted(spent):
            dollars.add_metric((rule,), spent[rule])
        yield dollars
        each = [((rule,), spent[rule] / asked[rule, "broken"]) for rule in spent if asked.get((rule, "broken"))]
        yield _gauge("judge_dollars_per_alert", "Cost of questions, by alert that came of them", ("rule",), each)

    def _output(self) -> Iterator[Metric]:
        alerts: dict[Labels, int] = {
            (sink, result): number for (sink, result), number in dict(self._counts.alerts).items()
        }
        yield _labelled("alerts", "Alerts handed to sinks, and what came of it", ("sink", "result"), alerts)
        yield self._alert_delays()
        yield _gauge(
            "outbox_alerts",
            "Alerts in the outbox, by what they wait for",
            ("sink", "state"),
            dict(self._counts.outbox).items(),
        )
        since, now = dict(self._counts.outbox_oldest), time.time()
        ages = [((sink,), max(0.0, now - begun) if begun else 0.0) for sink, begun in since.items()]
        yield _gauge("outbox_oldest_seconds", "How long the oldest waiting alert has waited", ("sink",), ages)

    def _alert_delays(self) -> HistogramMetricFamily:
        delays, sums = dict(self._counts.alert_delays), dict(self._counts.alert_delay_sums)
        family = HistogramMetricFamily(
            "stream_guard_alert_delay_seconds", "From an event to its alert at the sink", labels=("sink",)
        )
        for sink in sorted(sums):
            numbers = accumulate(delays.get((sink, bound), 0) for bound in DELAY_BOUNDS)
            buckets = [
                ("+Inf" if bound == inf else str(bound), number)
                for bound, number in zip(DELAY_BOUNDS, numbers, strict=True)
            ]
            family.add_metric((sink,), buckets, sums[sink])
        return family

    def _by_rule(self) -> dict[tuple[str, Labels], int]:
        """Return the counts by rule; two rules that share an id share a series."""
        finished, beside = self._finished, self._beside  # together: another thread replaces them
        return _sum_by_rule(finished, ((self._rules, self._counts), *beside))


def _named(rules: Sequence[RuleSpec]) -> tuple[tuple[str, str], ...]:
    return tuple((rule.id, rule.severity.word) for rule in rules)


def _sum_by_rule(
    finished: Mapping[tuple[str, Labels], int], counted: Iterable[tuple[tuple[tuple[str, str], ...], Counts]]
) -> defaultdict[tuple[str, Labels], int]:
    numbers = defaultdict(int, finished)
    for rules, counts in counted:
        for position, (rule_id, severity) in enumerate(rules):
            numbers["findings", (rule_id, severity)] += counts.findings.get(position, 0)
            for result, name in _RESULTS.items():
                numbers["rule_results", (rule_id, result)] += getattr(counts, name).get(position, 0)
    return numbers


def _tag(kind: type[Event]) -> str:
    return str(kind.__struct_config__.tag)


def _by_word(numbers: Mapping[Word, int], always: Iterable[Word] = ()) -> dict[Labels, int]:
    """Return the numbers by label; each label in ``always`` is present, so that its rate is never empty."""
    # Copied in one step of the interpreter: a scrape runs in another thread while the engine adds keys.
    now = dict.fromkeys(always, 0) | dict(numbers)
    return {(str(word),): number for word, number in now.items()}


def _total(name: str, text: str, value: int) -> CounterMetricFamily:
    return CounterMetricFamily(f"stream_guard_{name}", text, value=value)


def _gauge(name: str, text: str, labels: Labels, numbers: Iterable[tuple[Labels, float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"stream_guard_{name}", text, labels=labels)
    for values, number in sorted(numbers):
        family.add_metric(values, number)
    return family


def _labelled(name: str, text: str, labels: Labels, numbers: Mapping[Labels, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"stream_guard_{name}", text, labels=labels)
    for values in sorted(numbers):
        family.add_metric(values, numbers[values])
    return family
