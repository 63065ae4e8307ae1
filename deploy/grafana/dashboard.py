"""Writes the dashboard of Grafana: ``python deploy/grafana/dashboard.py``. What it shows is listed here, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).parent / "dashboards" / "stream_guard.json"
_SOURCE: Final = {"type": "prometheus", "uid": "prometheus"}
_WIDTH: Final = 24  # columns of Grafana's grid


class Panel(NamedTuple):
    """One panel: its title, what to make of it, its queries by what the legend calls them, and its unit."""

    title: str
    description: str
    queries: dict[str, str]
    unit: str = "short"


# One number each, in the first row.
NUMBERS: Final = (
    Panel("Guards that answer", "0: nobody watches the agents.", {"": 'sum(up{job="stream_guard"})'}),
    Panel(
        "Rules in force",
        "The fewest that any guard has; 0: it watches for nothing.",
        {"": "min(stream_guard_rules_loaded)"},
    ),
    Panel("Sessions open", "Of which rules remember something.", {"": "sum(stream_guard_sessions)"}),
    Panel("Records that wait", "In the topics, when last looked.", {"": "sum(stream_guard_lag_records)"}),
    Panel(
        "Dead letters, last hour",
        "Records that could not become events.",
        {"": "sum(increase(stream_guard_dead_letters_total[1h]))"},
    ),
    Panel(
        "Changes of the policy refused, last day",
        "The old policy stayed in force; the log says what is wrong with the new one.",
        {"": 'sum(increase(stream_guard_policy_reloads_total{result="failed"}[1d]))'},
    ),
)

# Two to a row, below.
CURVES: Final = (
    Panel(
        "From an event to its alert at the sink",
        "Out of a hundred alerts, ninety-nine are to be there within ten seconds.",
        {
            "half of them, {{sink}}": "histogram_quantile(0.5, "
            "sum by (le, sink) (rate(stream_guard_alert_delay_seconds_bucket[5m])))",
            "99 of 100, {{sink}}": "histogram_quantile(0.99, "
            "sum by (le, sink) (rate(stream_guard_alert_delay_seconds_bucket[5m])))",
        },
        "s",
    ),
    Panel(
        "Alerts that are late",
        "The share that reaches its sink more than ten seconds after the event.",
        {"{{job}}, an hour": "job:stream_guard_alerts_late:ratio1h", "{{job}}": "job:stream_guard_alerts_late:ratio5m"},
        "percentunit",
    ),
    Panel(
        "Findings by rule, without shadow mode",
        "In five minutes.",
        {"{{rule}} ({{severity}})": "sum by (rule, severity) (job_rule_severity:stream_guard_findings:increase5m)"},
    ),
    Panel(
        "What rules could not judge",
        "Never a pass: content or time was missing, or the rule raised.",
        {
            "{{rule}}: {{result}}": "sum by (rule, result) "
            '(increase(stream_guard_rule_results_total{result=~"unevaluable|error"}[5m]))'
        },
    ),
    Panel(
        "Events", "What agents do, by kind.", {"{{kind}}": "sum by (kind) (rate(stream_guard_events_total[5m]))"}, "cps"
    ),
    Panel(
        "Alerts sent",
        "In five minutes; rejected ones are dead letters of their sink.",
        {"{{sink}}: {{result}}": "sum by (sink, result) (increase(stream_guard_alerts_total[5m]))"},
    ),
    Panel(
        "Decisions before tools run",
        "Answers of the gate: allow, pause, block, terminate_session.",
        {"{{action}}": "sum by (action) (job_action:stream_guard_decisions:rate5m)"},
        "cps",
    ),
    Panel(
        "Time from question to answer, 99 of 100",
        "Agents wait for it; over api.budget an attempt is answered without judgement.",
        {"{{job}}": "job:stream_guard_gate_seconds:p99_5m"},
        "s",
    ),
    Panel(
        "Time to judge a batch",
        "Of records, without the wait for the broker.",
        {
            "half of them": "histogram_quantile(0.5, sum by (le) (rate(stream_guard_batch_seconds_bucket[5m])))",
            "99 of 100": "histogram_quantile(0.99, sum by (le) (rate(stream_guard_batch_seconds_bucket[5m])))",
        },
        "s",
    ),
    Panel(
        "Late and repeated events",
        "Judged where they stand, dropped, or without their call.",
        {
            "late": "sum(rate(stream_guard_late_events_total[5m]))",
            "repeated, dropped": "sum(rate(stream_guard_duplicate_events_total[5m]))",
            "results without a call": "sum(rate(stream_guard_unpaired_results_total[5m]))",
        },
        "cps",
    ),
    Panel(
        "Records that wait, by guard",
        "One that grows while the others do not has a slow partition.",
        {"{{instance}}": "sum by (instance) (stream_guard_lag_records)"},
    ),
    Panel(
        "Records that wait, by partition",
        "One that grows while the others do not has a session that fills it.",
        {"{{topic}}/{{partition}}": "max by (topic, partition) (stream_guard_partition_lag_records)"},
    ),
    Panel(
        "States",
        "Bytes of the stored sessions, and how long ago the latest batch became durable.",
        {
            "bytes, {{instance}}": "stream_guard_state_bytes",
            "seconds since durable, {{instance}}": "stream_guard_checkpoint_age_seconds",
        },
    ),
    Panel(
        "Rebalances and restores",
        "A worker that takes partitions over reads their states first, and judges nothing of them meanwhile.",
        {
            "rebalances, {{instance}}": "increase(stream_guard_rebalances_total[5m])",
            "rows left, {{instance}}": "stream_guard_restore_rows_left",
            "rows read, {{instance}}": "stream_guard_restore_rows",
            "seconds, {{instance}}": "stream_guard_restore_seconds",
        },
    ),
    Panel(
        "Copies of states",
        "Partitions of other workers that this one could take over at once, and those whose copies are behind.",
        {"{{state}}, {{instance}}": "stream_guard_copies"},
    ),
    Panel(
        "Dead letters that came back",
        "In five minutes.",
        {"{{instance}}": "increase(stream_guard_redriven_records_total[5m])"},
    ),
    Panel(
        "Alerts that wait, by sink",
        "How long the oldest has waited in the outbox: nothing is lost, but nobody is told.",
        {"{{sink}}": "max by (sink) (stream_guard_outbox_oldest_seconds)"},
        "s",
    ),
    Panel(
        "Attempts without judgement",
        "Closed: blocked. Open, or a rule that raised: let through.",
        {
            "gate: {{got}}": "sum by (got) (increase(stream_guard_gate_failures_total[5m]))",
            "a rule that raised": "sum(increase(stream_guard_fail_open_total[5m]))",
        },
    ),
    Panel(
        "What is forgotten",
        "A limit that bites means a rule may have lost a state.",
        {
            "limit: {{what}}": "sum by (what) (increase(stream_guard_evictions_total[5m]))",
            "states of edited rules": "sum(increase(stream_guard_state_resets_total[5m]))",
        },
    ),
)


def make_dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana reads it."""
    panels = [*_laid_out("stat", NUMBERS, 4, 4, 0), *_laid_out("timeseries", CURVES, 12, 8, 4)]
    return {
        "uid": "stream-guard",
        "title": "stream_guard",
        "description": "What the guard sees, finds and sends, and how it fares itself.",
        "tags": ["stream_guard"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": []},
        "annotations": {"list": []},
        "panels": [{**panel, "id": number} for number, panel in enumerate(panels, 1)],
    }


def _laid_out(kind: str, panels: tuple[Panel, ...], width: int, height: int, top: int) -> list[dict[str, Any]]:
    """Return panels of one size, from left to right and from the top down."""
    in_row = _WIDTH // width
    return [
        {
            "type": kind,
            "title": panel.title,
            "description": panel.description,
            "gridPos": {"w": width, "h": height, "x": n % in_row * width, "y": top + n // in_row * height},
            "datasource": _SOURCE,
            "targets": [
                {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
                for number, (legend, expression) in enumerate(panel.queries.items())
            ],
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "options": {},
        }
        for n, panel in enumerate(panels)
    ]


def text() -> str:
    """Return the file."""
    return json.dumps(make_dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
