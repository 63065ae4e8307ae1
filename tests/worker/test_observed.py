"""Metrics, health and the JSON log of a worker."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.parts import find_promtool, require
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows

pytestmark = pytest.mark.kafka


def get(url: str) -> tuple[int, str]:
    """The status and the body of an answer."""
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def number(body: str, series: str) -> float:
    """The value of one series."""
    (found,) = re.findall(rf"^{re.escape(series)} (\S+)$", body, re.MULTILINE)
    return float(found)


def test_metrics_are_clean_and_count_records_lag_and_reloads(fleet: Fleet, policy: Path, root: Path) -> None:
    rows = sample_rows(40)
    fleet.cluster.fill(fleet.events, rows)
    name = fleet.start(options=())
    url = fleet.url(name)
    fleet.wait_for(len(rows))
    fleet.wait_until(lambda: get(f"{url}/readyz")[0] == 200)
    assert get(f"{url}/livez") == get(f"{url}/healthz") == (200, "ok\n")
    good = policy.read_text()
    policy.write_text(good + "  - {id: broken, kind: no_such_kind}\n")
    fleet.wait_until(lambda: "stays in force" in fleet.log_of(name))
    policy.write_text(good.replace("ledger_*", "l*"))
    fleet.wait_until(lambda: "replaces" in fleet.log_of(name))
    _, body = get(f"{url}/metrics")
    assert number(body, "stream_guard_records_total") == len(rows)
    assert number(body, "stream_guard_lag_records") == 0
    lags = re.findall(
        r'^stream_guard_partition_lag_records\{partition="(\d+)",topic="(.+)"\} (\S+)$', body, re.MULTILINE
    )
    assert {(topic, float(lag)) for _, topic, lag in lags} == {(fleet.events, 0.0)}
    assert number(body, "stream_guard_rebalances_total") >= 1
    assert number(body, "stream_guard_state_bytes") >= 0
    assert number(body, "stream_guard_restore_rows_left") == 0
    assert number(body, "stream_guard_checkpoint_age_seconds") > 0
    assert 'stream_guard_alert_delay_seconds_count{sink="kafka' in body
    assert number(body, 'stream_guard_policy_reloads_total{result="failed"}') == 1
    assert number(body, 'stream_guard_policy_reloads_total{result="ok"}') == 1
    promtool = find_promtool(root)
    require(promtool, "promtool is missing; `make setup-tests` says how to get it")
    done = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_line_of_the_json_log_is_an_object(fleet: Fleet) -> None:
    rows = sample_rows(5)
    fleet.cluster.fill(fleet.events, rows)
    name = fleet.start(options=("--log-format", "json"))
    fleet.wait_for(len(rows))
    fleet.stop(name)
    lines = [json.loads(line) for line in fleet.log_of(name).splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert lines[-1]["message"] == "ended"
    assert lines[-1]["records"] == len(rows)


@pytest.mark.long
def test_a_worker_whose_alerts_cannot_be_delivered_ends_and_reports_its_lag(
    fleet: Fleet, policy: Path, own_broker: Broker
) -> None:
    elsewhere = Cluster(own_broker.address())
    fleet.alerts = elsewhere.create(1)
    target = f"kafka:{own_broker.address()}/{fleet.alerts}"
    rows = sample_rows(200)
    # Longer than a busy machine keeps a worker that is well from its records.
    name = fleet.start(alerts=target, worker__stall="8", kafka__patience="60")
    fleet.cluster.fill(fleet.events, rows[:1000])
    fleet.wait_for(1000)
    own_broker.kill()
    fleet.cluster.fill(fleet.events, rows[1000:1500])
    fleet.cluster.fill(fleet.events, rows[1500:])
    assert fleet.end_of(name) == 3
    assert re.search(r"nothing was processed for \d+ s, and \d+ records wait|were not acknowledged", fleet.log_of(name))
    own_broker.start()
    fleet.start(name, alerts=target)
    fleet.wait_for(len(rows))
    sent = {json.loads(record.value)["id"] for record in elsewhere.read(fleet.alerts)}
    assert sent == set(checked(rows, policy))
