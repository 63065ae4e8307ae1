"""A partition of spans: spans that wait for their session survive crashes, and are released when it is idle."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from stream_guard.judge.model import Finding
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.worker.partition import SessionPartition
from tests.formats.telemetry import TRACE, otlp, wrap
from tests.formats.test_stitching import NAME, POLICY, spans_of_the_corpus
from tests.worker.partitions import Rows, fold_with_crashes, open_partition, write

TOPIC = "spans"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return load_policy(file, build_registry())


def records(traces: int) -> list[Record]:
    """Return many conversations at once, span by span; the last span of each names it."""
    exports: list[list[dict[str, Any]]] = []
    for number in range(traces):
        spans = [span | {"traceId": f"{number:032x}"} for span in spans_of_the_corpus(named=False)]
        spans[-1]["attributes"] = [*spans[-1]["attributes"], {"key": NAME, "value": wrap(f"order-{number}")}]
        exports += [[span] for span in spans]
    by_place = sorted(range(len(exports)), key=lambda place: (place % (len(exports) // traces), place))
    values = [otlp(exports[place])[0] for place in by_place]
    return [Record(value, f"{TOPIC}/0", offset) for offset, value in enumerate(values)]


def reopen(rows: Rows, policy: Policy, now: list[float]) -> SessionPartition:
    return open_partition(rows, policy, "otlp-json", now=lambda: now[0])


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_crashes_between_any_two_rows_leave_the_alerts_of_sessions_that_are_named_last(
    policy: Policy, seed: int
) -> None:
    given, dice = records(12), random.Random(seed)
    rows: Rows = {}
    found, crashes = fold_with_crashes(lambda: reopen(rows, policy, [0.0]), rows, given, dice, batch=20, back=20)
    assert crashes > 3
    sessions = {f"order-{number}" for number in range(12)}
    assert {(one.rule_id, one.session_id) for one in found} == {
        (rule, session) for rule in ("look-first", "one-mail") for session in sessions
    }
    assert len({one.alert_id for one in found}) == 24


def test_spans_without_a_session_are_evaluated_when_the_partition_has_been_idle_long_enough(policy: Policy) -> None:
    rows: Rows = {}
    now, found = [0.0], list[Finding]()
    partition = reopen(rows, policy, now)
    values = [otlp([span])[0] for span in spans_of_the_corpus(named=False)[:-1]]
    partition.fold(TOPIC, [Record(value, f"{TOPIC}/0", n) for n, value in enumerate(values)], found)
    write(rows, partition.snapshot())
    now[0] = 30.0
    assert not partition.tick(10.0, found)
    now[0] = 90.0
    assert partition.tick(10.0, found)
    assert {finding.session_id for finding in found} == {TRACE}
