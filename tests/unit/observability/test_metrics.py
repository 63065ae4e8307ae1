"""What Prometheus sees of the counts."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stream_guard import NoState, Params, Rule, ToolCall, Turn
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Severity
from stream_guard.judge.spec import RuleSpec
from stream_guard.observability.metrics import Metrics


class Silent(Rule[Params, NoState]):
    """Says nothing."""

    kind = "silent"


def rule(rule_id: str, severity: Severity = Severity.ERROR) -> RuleSpec:
    return RuleSpec(id=rule_id, slot=rule_id, rule=Silent(Params()), severity=severity)


class Scraped:
    """A registry with metrics, and its numbers by name and labels as a scrape sees them."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.counts, self.registry)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def text(self) -> str:
        return generate_latest(self.registry).decode()


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def test_counts_are_seen_as_they_are_at_the_moment(scraped: Scraped) -> None:
    assert scraped("stream_guard_records_total") == 0
    scraped.counts.records += 5
    scraped.counts.events[ToolCall] += 3
    scraped.counts.events[Turn] += 1
    scraped.counts.sessions += 2
    scraped.counts.late_events += 1
    assert scraped("stream_guard_records_total") == 5
    assert scraped("stream_guard_events_total", kind="tool_call") == 3
    assert scraped("stream_guard_events_total", kind="session_end") == 0
    assert scraped("stream_guard_sessions") == 2
    assert scraped("stream_guard_late_events_total") == 1


def test_what_can_happen_is_there_before_it_does(scraped: Scraped) -> None:
    scraped.metrics.use_rules([rule("confirm")])
    assert scraped("stream_guard_session_closes_total", reason="idle") == 0
    assert scraped("stream_guard_evictions_total", what="sessions") == 0
    assert scraped("stream_guard_dead_letters_total", **{"class": "decode"}) == 0
    assert scraped("stream_guard_findings_total", rule="confirm", severity="error") == 0
    assert scraped("stream_guard_rule_results_total", rule="confirm", result="unevaluable") == 0


def test_rules_are_counted_by_id_and_severity(scraped: Scraped) -> None:
    scraped.metrics.use_rules([rule("a"), rule("b", Severity.CRITICAL), replace(rule("a"), slot="a#2")])
    counts = scraped.counts
    counts.hits[0] += 4
    counts.findings[0] += 3
    counts.findings[1] += 1
    counts.findings[2] += 2
    counts.unevaluable[1] += 7
    counts.rule_errors[2] += 1
    assert scraped("stream_guard_rules_loaded") == 3
    assert scraped("stream_guard_findings_total", rule="a", severity="error") == 5, "one series for one id"
    assert scraped("stream_guard_findings_total", rule="b", severity="critical") == 1
    assert scraped("stream_guard_rule_results_total", rule="a", result="fail") == 4
    assert scraped("stream_guard_rule_results_total", rule="b", result="unevaluable") == 7
    assert scraped("stream_guard_rule_results_total", rule="a", result="error") == 1


def test_rules_in_shadow_mode_are_named_unless_another_of_that_id_is_not(scraped: Scraped) -> None:
    quiet = replace(rule("quiet"), shadow=True)
    scraped.metrics.use_rules([quiet, rule("loud"), replace(rule("loud"), slot="loud#2", shadow=True)])
    assert scraped("stream_guard_shadow_rules", rule="quiet") == 1
    assert scraped("stream_guard_shadow_rules", rule="loud") is None
    scraped.metrics.use_rules([rule("quiet")])
    assert scraped("stream_guard_shadow_rules", rule="quiet") is None


def test_another_policy_takes_no_count_back_and_none_over(scraped: Scraped) -> None:
    scraped.metrics.use_rules([rule("a"), rule("b")])
    scraped.counts.findings[0] += 3
    scraped.metrics.use_rules([rule("c"), rule("a")])
    scraped.counts.findings[0] += 1
    scraped.counts.findings[1] += 1
    scraped.metrics.use_rules([rule("a")])
    scraped.counts.findings[0] += 1
    assert scraped("stream_guard_findings_total", rule="a", severity="error") == 5
    assert scraped("stream_guard_findings_total", rule="c", severity="error") == 1
    assert scraped("stream_guard_rules_loaded") == 1


def test_batches_and_alerts_and_the_version_are_seen(scraped: Scraped) -> None:
    scraped.metrics.batch_seconds.observe(0.02)
    scraped.counts.alerts["jsonl", "ok"] += 2
    assert scraped("stream_guard_batch_seconds_count") == 1
    assert scraped("stream_guard_batch_seconds_bucket", le="0.025") == 1
    assert scraped("stream_guard_alerts_total", sink="jsonl", result="ok") == 2
    assert 'stream_guard_build_info{version="' in scraped.text()


def test_the_delay_of_alerts_is_a_histogram_by_sink(scraped: Scraped) -> None:
    scraped.counts.note_sent("pager", (100.0, 97.0, None, 105.0, 0.0), now=100.05)
    name = "stream_guard_alert_delay_seconds"
    found = {
        bound: scraped(f"{name}_bucket", sink="pager", le=bound) for bound in ("0.1", "2.5", "5.0", "60.0", "+Inf")
    }
    assert found == {"0.1": 2, "2.5": 2, "5.0": 3, "60.0": 3, "+Inf": 4}, "one from the future is not late"
    assert scraped(f"{name}_sum", sink="pager") == pytest.approx(0.05 + 3.05 + 100.05)
    assert scraped(f"{name}_count", sink="pager") == 4


def test_the_age_of_a_checkpoint_begins_with_the_first(scraped: Scraped) -> None:
    assert scraped("stream_guard_checkpoint_age_seconds") == 0
    scraped.counts.durable_at = time.time() - 60
    assert (scraped("stream_guard_checkpoint_age_seconds") or 0) >= 60


def test_every_count_has_a_metric(scraped: Scraped) -> None:
    scraped.metrics.use_rules([rule("r")])

    def total() -> float:
        families = text_string_to_metric_families(scraped.text())
        return sum(sample.value for family in families for sample in family.samples if "build" not in sample.name)

    keys: dict[str, Any] = {
        "events": ToolCall,
        "decode_errors": "native",
        "hits": 0,
        "findings": 0,
        "unevaluable": 0,
        "rule_errors": 0,
        "closed": "idle",
        "evictions": "states",
        "dead_letters": "decode",
        "alerts": ("jsonl", "failed"),
        "policy_reloads": "ok",
        "outbox": ("pager", "waiting"),
        "partition_lag": ("events", "0"),
        "restore": "rows",
        "copies": "complete",
        "inquiries": ("r", "kept"),
        "judge_dollars": "r",
    }
    # Sums and reasons of what is shown by rule, moments, which are shown as ages, names for the summary of a run, and
    # the parts of a histogram, which has a test of its own.
    elsewhere = {"replaced_policies", "lacking", "outbox_oldest", "durable_at", "tools", "paths", "fields", "texts"}
    elsewhere |= {"alert_delays", "alert_delay_sums"}
    for name in vars(Counts()).keys() - elsewhere:
        before = total()
        value = getattr(scraped.counts, name)
        if isinstance(value, int):
            setattr(scraped.counts, name, value + 1)
        else:
            value[keys[name]] += 1
        assert total() == before + 1, name


def test_what_a_judge_costs_is_told_by_alert_that_came_of_it(scraped: Scraped) -> None:
    scraped.counts.judge_dollars["r"] = 0.5
    assert scraped("stream_guard_judge_dollars_per_alert", rule="r") is None
    scraped.counts.inquiries["r", "broken"] = 4
    scraped.counts.inquiries["r", "kept"] = 6
    assert scraped("stream_guard_judge_dollars_per_alert", rule="r") == 0.125
    assert scraped("stream_guard_judge_dollars_total", rule="r") == 0.5
    assert scraped("stream_guard_inquiries_total", rule="r", result="kept") == 6


def test_names_follow_the_conventions_and_are_explained(scraped: Scraped) -> None:
    for family in text_string_to_metric_families(scraped.text()):
        assert re.fullmatch(r"stream_guard_[a-z]+(_[a-z]+)*", family.name)
        assert family.documentation
        assert {label for sample in family.samples for label in sample.labels} <= {
            "kind",
            "format",
            "class",
            "reason",
            "what",
            "rule",
            "severity",
            "result",
            "sink",
            "state",
            "topic",
            "partition",
            "version",
            "le",
        }


def test_two_processes_worth_of_metrics_do_not_meet() -> None:
    first, second = Scraped(), Scraped()
    first.counts.records += 1
    assert second("stream_guard_records_total") == 0
