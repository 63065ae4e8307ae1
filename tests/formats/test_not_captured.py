"""Telemetry without content, which is OpenTelemetry's default: a rule that cannot judge says so, and never passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.commands import CLEAN, INCONCLUSIVE
from stream_guard.doctor.topics import Sample, check_sample
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.observability.metrics import Metrics
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from tests.formats.telemetry import current, otlp, otlp_span, sketches
from tests.formats.test_corpus import DECODERS

CONTENT = ("messages", "arguments", "result")
BLIND = {
    "a text": "{id: r, kind: forbidden_text, params: {text: secret}}",
    "a gate over arguments": "{id: r, kind: no_call, params: {tool: issue_refund}, "
    'when: {path: tool.args.amount, op: ">", value: 100}}',
    "a gate over the answer": "{id: r, kind: no_call, params: {tool: issue_refund}, "
    "unless: {path: response.text, op: contains, value: sorry}}",
    "a key in the arguments": "{id: r, kind: max_calls, params: {tool: issue_refund, n: 5}, "
    "key: [session, args.order_id]}",
}


def without_content() -> list[bytes]:
    spans = []
    for one in sketches():
        attributes = {name: value for name, value in current(one).items() if not name.endswith(CONTENT)}
        spans.append(otlp_span(one, attributes))
    return otlp(spans)


def check(folder: Path, rule: str, *options: str) -> tuple[int, str]:
    recording, policy = folder / "spans.jsonl", folder / "policy.yaml"
    recording.write_bytes(b"".join(without_content()))
    policy.write_text(f"rules: [{rule}]\n")
    command = ["check", str(recording), "--policy", str(policy), "--from-format", "otlp-json", *options]
    done = CliRunner().invoke(app, command)
    return done.exit_code, done.output


@pytest.mark.parametrize("asks", BLIND)
def test_rule_that_asks_for_what_was_not_captured_is_inconclusive(asks: str, tmp_path: Path) -> None:
    code, output = check(tmp_path, BLIND[asks])
    assert code == INCONCLUSIVE
    assert "a rule could not judge" in output
    assert check(tmp_path, BLIND[asks], "--allow-inconclusive")[0] == CLEAN


def test_rule_that_asks_for_names_alone_is_judged(tmp_path: Path) -> None:
    assert check(tmp_path, "{id: r, kind: max_calls, params: {tool: issue_refund, n: 1}}")[0] == CLEAN


def test_metrics_count_what_could_not_be_judged_by_rule(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(f"rules: [{BLIND['a text']}]\n")
    policy, counts, scraped = load_policy(tmp_path / "policy.yaml", build_registry()), Counts(), CollectorRegistry()
    metrics = Metrics(counts, scraped)
    metrics.use_rules(policy.rules)
    table = Judge(policy, counts=counts)
    for event in DECODERS["otlp-json"]().decode(Record(without_content()[0])):
        table.feed(event)
    name, labels = "stream_guard_rule_results_total", {"rule": "r", "result": "unevaluable"}
    turns = sum(one.sort == "LLM" for one in sketches())
    assert scraped.get_sample_value(name, labels) == turns


def test_doctor_warns_of_topics_without_content() -> None:
    sample = Sample({"spans": 1})
    sample.add(Record(without_content()[0], "spans/0", key=b"order-17"), DECODERS["otlp-json"]())
    [found] = [one for one in check_sample(sample, lambda _key, _count: 0) if one.about == "content"]
    assert found.status == "warn"
    assert "without their content" in found.found
