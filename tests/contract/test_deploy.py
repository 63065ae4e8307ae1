"""What stands in deploy/ and docker-compose.yml fits the program it deploys."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from ruamel.yaml import YAML

from stream_guard.counts import Counts
from stream_guard.metrics import Metrics
from stream_guard.settings import Settings

SAMPLES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum"), "info": ("_info",)}


def read(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)


@pytest.fixture(scope="module")
def compose(root: Path) -> Any:
    return read(root / "docker-compose.yml")


@pytest.fixture(scope="module")
def alarms(root: Path) -> list[dict[str, Any]]:
    groups = read(root / "deploy" / "prometheus" / "alerts.yml")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def served_metrics() -> set[str]:
    registry = CollectorRegistry()
    Metrics(Counts(), registry)
    return {family.name + suffix for family in registry.collect() for suffix in SAMPLES[family.type]}


def variables(service: dict[str, Any]) -> dict[str, str]:
    environment: dict[str, str] = service["environment"]
    return environment


def test_compose_file_is_valid_by_the_compose_schema(root: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, str(root / "docker-compose.yml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["guard", "prometheus"])
def test_container_has_no_rights_it_does_not_need(name: str, compose: Any) -> None:
    service = compose["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


def test_every_folder_that_compose_mounts_from_the_repository_exists(root: Path, compose: Any) -> None:
    mounts = [mount for service in compose["services"].values() for mount in service["volumes"]]
    folders = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
    assert folders
    assert [folder for folder in folders if not (root / folder).is_dir()] == []


def test_every_variable_of_the_guard_is_a_setting(compose: Any) -> None:
    for variable in variables(compose["services"]["guard"]):
        section, name = variable.removeprefix("STREAM_GUARD_").lower().split("__")
        assert name in type(getattr(Settings(), section)).model_fields, variable


def test_prometheus_asks_where_the_guard_serves(root: Path, compose: Any) -> None:
    config = read(root / "deploy" / "prometheus" / "prometheus.yml")
    target = f"guard:{variables(compose['services']['guard'])['STREAM_GUARD_SERVE__PORT']}"
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": [target]}]
    assert all((root / "deploy" / "prometheus" / file).is_file() for file in config["rule_files"])


def test_alarms_name_only_metrics_that_are_served(alarms: list[dict[str, Any]]) -> None:
    named = {name for alarm in alarms for name in re.findall(r"stream_guard_\w+", alarm["expr"])}
    assert named
    assert named - served_metrics() == set()


def test_every_alarm_says_what_happened_and_what_to_do(alarms: list[dict[str, Any]]) -> None:
    for alarm in alarms:
        assert alarm["annotations"].keys() == {"summary", "action"}, alarm["alert"]
        assert alarm["labels"]["severity"] in {"info", "warning", "critical"}, alarm["alert"]


def test_every_alarm_has_a_unit_test(root: Path, alarms: list[dict[str, Any]]) -> None:
    tests = (root / "deploy" / "prometheus" / "alerts_test.yml").read_text()
    assert [alarm["alert"] for alarm in alarms if alarm["alert"] not in tests] == []


def test_image_is_made_from_files_that_exist_and_locks_with_hashes(root: Path) -> None:
    text = (root / "deploy" / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for name in line.split()]
    assert [name for name in copied if not (root / name).exists()] == []
    let_in = re.findall(r"^!(.+)$", (root / "deploy" / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(let_in)
    assert all("--require-hashes" in line for line in text.splitlines() if "-r deploy/" in line)


def test_image_does_not_run_as_root(root: Path, compose: Any) -> None:
    users = re.findall(r"^USER (\S+)$", (root / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    assert users == [compose["services"]["guard"]["user"]]
    assert not users[0].startswith("0")


@pytest.fixture
def guard(root: Path, compose: Any, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The guard's own command from the compose file, on folders and a port of this machine."""
    service = compose["services"]["guard"]
    (tmp_path / "events").mkdir()
    places = {
        "/events": str(tmp_path / "events"),
        "/policies/${POLICY:-refunds.yaml}": str(root / "deploy" / "policies" / "refunds.yaml"),
        "/var/lib/stream-guard": str(tmp_path),
    }
    arguments = service["command"]
    for inside, here in places.items():
        arguments = [argument.replace(inside, here) for argument in arguments]
    own = {"STREAM_GUARD_SERVE__HOST": "127.0.0.1", "STREAM_GUARD_SERVE__PORT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "stream_guard.cli", *arguments],
        env={**os.environ, **variables(service), **own},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    watchdog = Timer(60, process.kill)
    watchdog.start()
    yield process
    watchdog.cancel()
    process.kill()
    process.communicate()


def test_command_of_the_compose_file_starts_serves_and_stops(guard: subprocess.Popen[str]) -> None:
    assert guard.stderr is not None
    said = (re.match(r"metrics at (http://\S+)/metrics", line) for line in guard.stderr)
    url = next(found[1] for found in said if found)
    with urlopen(f"{url}/healthz", timeout=10) as answer:
        assert answer.status == 200
    with urlopen(f"{url}/metrics", timeout=10) as answer:
        assert re.search(r"^stream_guard_rules_loaded [1-9]", answer.read().decode(), re.MULTILINE)
    guard.send_signal(signal.SIGTERM)
    assert guard.wait(30) == 0
