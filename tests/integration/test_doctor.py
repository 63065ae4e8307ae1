"""``doctor`` on a real broker: it says what is wrong, what to do, and gives the exit code for it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.kafka.client import partition_of_key
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.kafka.configuration import PASSWORD, USER

pytestmark = [pytest.mark.kafka, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


def event(session: str) -> bytes:
    return json.dumps({"kind": "user_message", "session_id": session, "time": time.time()}).encode()


def ask(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["doctor", "--format", "json", *arguments])
    return result.exit_code, {check["about"]: check for check in json.loads(result.stdout)}


def statuses(checks: dict[str, Any]) -> dict[str, str]:
    return {about: check["status"] for about, check in checks.items()}


def test_a_healthy_topic_passes(cluster: Cluster) -> None:
    topic, table = cluster.create(partitions=3), cluster.create(partitions=3)
    cluster.fill(topic, [Row(event(f"s{number}"), f"s{number}".encode()) for number in range(50)])
    code, checks = ask("--kafka", cluster.url(topic), "--table", table)
    assert code == 0
    assert set(statuses(checks).values()) == {"ok"}
    assert set(checks) == {
        *("broker", "login", "topics", "partitions", "records", "format", "key spread", "keys", "content", "clock")
    }


def test_the_newest_records_are_looked_at(cluster: Cluster) -> None:
    topic = cluster.create(partitions=2)
    old = [Row(b"broken", b"k", partition=number % 2) for number in range(100)]
    new = [Row(event(f"s{number}"), f"s{number}".encode()) for number in range(200)]
    cluster.fill(topic, [*old, *new])
    code, checks = ask("--kafka", cluster.url(topic), "--sample", "100")
    assert code == 0
    assert checks["records"]["found"] == "looked at the newest 100"
    assert checks["format"]["status"] == "ok"


def test_a_session_on_two_partitions_fails(cluster: Cluster) -> None:
    topic = cluster.create(partitions=2)
    cluster.fill(topic, [Row(event("s1"), b"s1", partition=number) for number in range(2)])
    code, checks = ask("--kafka", cluster.url(topic))
    assert code == 1
    assert checks["key spread"]["status"] == "fail"
    assert f"{topic}/0, {topic}/1" in checks["key spread"]["found"]


def test_another_partitioner_is_noticed(cluster: Cluster) -> None:
    topic = cluster.create(partitions=3)
    rows = [Row(event(f"s{n}"), b"s%d" % n, partition=(partition_of_key(b"s%d" % n, 3) + 1) % 3) for n in range(9)]
    cluster.fill(topic, rows)
    code, checks = ask("--kafka", cluster.url(topic))
    assert code == 0
    assert checks["keys"] == {
        "about": "keys",
        "status": "warn",
        "found": "9 of 9 events are not where murmur2 puts their key",
        "advice": (
            "set the producer's partitioner to murmur2 (librdkafka: murmur2_random), as all other clients here do"
        ),
    }


def test_a_table_with_other_partitions_fails(cluster: Cluster) -> None:
    topic, table = cluster.create(partitions=3), cluster.create(partitions=4)
    code, checks = ask("--kafka", cluster.url(topic), "--rekey", table)
    assert code == 1
    assert checks["partitions"]["status"] == "fail"
    assert checks["records"]["status"] == "warn"


def test_a_topic_that_is_not_there_fails(cluster: Cluster) -> None:
    code, checks = ask("--kafka", cluster.url("nowhere"))
    assert code == 1
    assert statuses(checks) == {"broker": "ok", "login": "ok", "topics": "fail"}


@pytest.mark.usefixtures("leaky_client")
def test_nobody_at_the_address_is_infrastructure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_guard.doctor.topics.PATIENCE", 1.0)
    code, checks = ask("--kafka", "kafka://127.0.0.1:1/t")
    assert code == 3
    assert statuses(checks) == {"broker": "fail"}
    assert checks["broker"]["advice"] == "check the address and the network"


@pytest.mark.usefixtures("leaky_client")
def test_a_wrong_password_is_infrastructure_and_stays_secret(secure_broker: Broker, tmp_path: Path) -> None:
    topic = Cluster(secure_broker.address()).create()
    (tmp_path / "password").write_text("not-the-word")
    settings = tmp_path / "settings.yaml"
    written = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_username": USER,
        "sasl_password_file": str(tmp_path / "password"),
    }
    settings.write_text(json.dumps({"kafka": written}))
    target = f"kafka://{secure_broker.address('SASL_PLAINTEXT')}/{topic}"
    code, checks = ask("--kafka", target, "--settings", str(settings))
    assert code == 3
    assert statuses(checks) == {"broker": "ok", "login": "fail"}
    assert "not-the-word" not in json.dumps(checks)
    (tmp_path / "password").write_text(PASSWORD)
    code, checks = ask("--kafka", target, "--settings", str(settings))
    assert code == 0
    assert checks["login"]["found"].startswith("logged in as 'guard' by SCRAM-SHA-512")


def test_the_table_for_people_says_what_to_do(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    result = CliRunner().invoke(app, ["doctor", "--kafka", cluster.url("nowhere")])
    assert result.exit_code == 1
    assert "create them, or ask for the right to read them" in result.stdout


def test_an_address_that_is_none_is_a_mistake_in_the_command() -> None:
    result = CliRunner().invoke(app, ["doctor", "--kafka", "kafka://a:1"])
    assert "the topic is missing" in str(result.exception)
