"""What stands in deploy/ and docker-compose.yml fits the program it deploys."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any
from urllib.request import urlopen

import pytest
import typer
from jsonschema import Draft7Validator
from jsonschema.validators import validator_for
from prometheus_client import CollectorRegistry
from ruamel.yaml import YAML

from deploy.grafana.dashboard import FILE, make_dashboard, text
from stream_guard.cli.app import app
from stream_guard.errors import SettingsError
from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.counts import Counts
from stream_guard.judge.spec import Policy
from stream_guard.observability.metrics import Metrics
from stream_guard.serve.service import GateMetrics, Service
from tests.laws.deployed import load_deployed, open_routes
from tests.parts import find_promtool, require

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


@pytest.fixture(scope="module")
def records(root: Path) -> list[dict[str, Any]]:
    groups = read(root / "deploy" / "prometheus" / "recording.yml")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def served_metrics() -> set[str]:
    registry = CollectorRegistry()
    Metrics(Counts(), registry)
    with TemporaryDirectory() as folder, closing(SqliteDatabase(Path(folder) / "history.db")) as database:
        service = Service(Gate(Policy(rules=(), version=""), database), registry=registry)
        GateMetrics(service)
        service.close()
    return {family.name + suffix for family in registry.collect() for suffix in SAMPLES[family.type]}


def variables(service: dict[str, Any]) -> dict[str, str]:
    environment: dict[str, str] = service["environment"]
    return environment


def test_compose_file_is_valid_by_the_compose_schema(root: Path) -> None:
    # Found, not imported: the schema is wanted, and not the command that ships it.
    package = find_spec("check_jsonschema")
    assert package is not None
    assert package.origin is not None
    schema = json.loads((Path(package.origin).parent / "builtin_schemas" / "vendor" / "compose-spec.json").read_text())
    # Some versions of it name draft 7 by an address that no validator knows.
    draft = Draft7Validator if "draft-07" in schema["$schema"] else validator_for(schema)
    validator = draft(schema)
    flaws = [
        f"{error.json_path}: {error.message}" for error in validator.iter_errors(read(root / "docker-compose.yml"))
    ]
    assert flaws == []
    assert not validator.is_valid({"services": {"guard": {"imagge": "x"}}})


@pytest.mark.parametrize(
    "name", ["worker", "demo", "guard", "gate", "database", "prometheus", "alertmanager", "on-call", "grafana"]
)
def test_container_has_no_rights_it_does_not_need(name: str, compose: Any) -> None:
    service = compose["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


def test_every_folder_that_compose_mounts_from_the_repository_exists(root: Path, compose: Any) -> None:
    mounts = [mount for service in compose["services"].values() for mount in service.get("volumes", ())]
    folders = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
    assert folders
    assert [folder for folder in folders if not (root / folder).is_dir()] == []


@pytest.mark.parametrize("name", ["worker", "demo", "guard", "gate"])
def test_every_variable_of_the_guard_is_a_setting(name: str, compose: Any) -> None:
    load_deployed(variables(compose["services"][name]))


@pytest.mark.parametrize("variable", ["SERVE__PORTT", "SERFE__PORT", "DELIVERY__ROUTES__PAGER__TOO"])
def test_a_misspelt_variable_would_be_found(variable: str) -> None:
    with pytest.raises(SettingsError, match="unknown"):
        load_deployed({f"STREAM_GUARD_{variable}": "1"})


@pytest.mark.parametrize("name", ["worker", "guard", "gate"])
def test_somebody_is_told_of_what_a_container_finds(name: str, root: Path, compose: Any, tmp_path: Path) -> None:
    settings = load_deployed(variables(compose["services"][name]))
    assert list(open_routes(settings, tmp_path)) == ["alertmanager:http://alertmanager:9093"]
    [receiver] = read(root / "deploy" / "alertmanager" / "alertmanager.yml")["receivers"]
    [hook] = receiver["webhook_configs"]
    host, port = re.fullmatch(r"http://([a-z-]+):(\d+)/", hook["url"]).groups()  # type: ignore[union-attr]  # it fits
    assert compose["services"][host]["command"] == [f"0.0.0.0:{port}"]


def test_prometheus_asks_where_the_guard_serves_and_tells_the_alertmanager(root: Path, compose: Any) -> None:
    config = read(root / "deploy" / "prometheus" / "prometheus.yml")
    [found] = config["scrape_configs"][0]["dns_sd_configs"]
    assert set(found["names"]) == {"worker", "guard"} <= set(compose["services"])
    for name in found["names"]:
        assert str(found["port"]) == variables(compose["services"][name])["STREAM_GUARD_SERVE__PORT"]
    assert config["alerting"]["alertmanagers"][0]["static_configs"] == [{"targets": ["alertmanager:9093"]}]
    assert all((root / "deploy" / "prometheus" / file).is_file() for file in config["rule_files"])


def test_what_is_mounted_where_is_what_the_programs_are_told(root: Path, compose: Any) -> None:
    services = compose["services"]
    assert "./deploy/alertmanager:/etc/alertmanager:ro" in services["alertmanager"]["volumes"]
    assert "--config.file=/etc/alertmanager/alertmanager.yml" in services["alertmanager"]["command"]
    provider = read(root / "deploy/grafana/provisioning/dashboards/stream_guard.yml")["providers"][0]
    assert f"./deploy/grafana/dashboards:{provider['options']['path']}:ro" in services["grafana"]["volumes"]
    [source] = read(root / "deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (root / "deploy/grafana/dashboards" / Path(home).name).is_file()


def test_topics_that_are_used_are_the_topics_that_are_made(compose: Any) -> None:
    services = compose["services"]
    made = set(re.findall(r"([a-z.-]+):\d+", services["topics"]["command"][-1].split(";")[0]))
    used = {services["worker"]["command"][1].removeprefix("kafka:///")}
    used |= {word.split("=")[1].removeprefix("kafka:") for word in services["worker"]["command"][3:]}
    used |= {services["demo"]["command"][-1].partition("kafka:///")[2]}
    assert made == used == {"agent-events", "stream-guard.alerts", "stream-guard.dead-letters"}


@pytest.mark.parametrize(
    "name", ["kafka", "worker", "guard", "gate", "database", "prometheus", "alertmanager", "on-call", "grafana"]
)
def test_whatever_runs_on_has_a_health_check(name: str, compose: Any) -> None:
    service = compose["services"][name]
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"]


def test_only_this_machine_can_reach_what_is_published(compose: Any) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("name", ["worker", "demo", "guard", "gate"])
def test_every_option_of_a_command_exists(name: str, compose: Any) -> None:
    command, *words = compose["services"][name]["command"]
    known = getattr(typer.main.get_command(app), "commands", {})
    options = {option for parameter in known[command].load().params for option in parameter.opts}
    given = {word.split("=")[0] for word in words if word.startswith("--")}
    assert given - options == set()


def test_the_dashboard_is_what_its_code_writes() -> None:
    assert FILE.read_text() == text(), "run: python deploy/grafana/dashboard.py"


def test_the_dashboard_names_only_metrics_that_exist_and_shows_each_where_there_is_room(
    records: list[dict[str, Any]],
) -> None:
    dashboard = make_dashboard()
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name for expression in expressions for name in re.findall(r"[a-z_:]*stream_guard_[\w:]+", expression)}
    assert named - served_metrics() - {record["record"] for record in records} == set()
    assert all(panel["title"] and panel["description"] for panel in dashboard["panels"])
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in dashboard["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def promtool(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    found = find_promtool(root)
    require(found, "promtool is missing; `make setup-tests` says how to get it")
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.long
def test_alarms_say_what_their_unit_tests_want(root: Path) -> None:
    done = promtool(root, "test", "rules", str(root / "deploy" / "prometheus" / "alerts_test.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_of_prometheus_is_valid(root: Path) -> None:
    done = promtool(root, "check", "config", str(root / "deploy" / "prometheus" / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_alarms_and_recordings_name_only_metrics_that_are_served_or_recorded(
    alarms: list[dict[str, Any]], records: list[dict[str, Any]]
) -> None:
    recorded = {record["record"] for record in records}
    named = {name for rule in (*alarms, *records) for name in re.findall(r"[a-z_:]*stream_guard_[\w:]+", rule["expr"])}
    assert named & recorded
    assert named - served_metrics() - recorded == set()


def test_every_recording_is_read_in_a_unit_test(root: Path, records: list[dict[str, Any]]) -> None:
    files = ("alerts_test.yml", "alerts.yml")  # an alarm that rests on one has a test of its own
    tests = "".join((root / "deploy" / "prometheus" / file).read_text() for file in files)
    assert [record["record"] for record in records if record["record"] not in tests] == []


def test_who_does_not_answer_silences_alarms_that_exist(root: Path, alarms: list[dict[str, Any]]) -> None:
    names = {alarm["alert"] for alarm in alarms}
    rules = read(root / "deploy" / "alertmanager" / "alertmanager.yml")["inhibit_rules"]
    matchers = [matcher for rule in rules for matcher in (*rule["source_matchers"], *rule["target_matchers"])]
    about = [found for matcher in matchers for found in re.findall(r"alertname (=~?) \"?([\w|()]+)", matcher)]
    assert len(about) == 3
    for sign, pattern in about:
        matching = [name for name in names if re.fullmatch(pattern, name)]
        assert len(matching) == (3 if sign == "=~" else 1)


def test_alertmanager_takes_its_configuration_and_keeps_findings_and_alarms_apart(root: Path) -> None:
    amtool = shutil.which("amtool")
    require(amtool, "amtool is missing (Debian: apt-get install prometheus-alertmanager)")
    config = root / "deploy" / "alertmanager" / "alertmanager.yml"
    done = subprocess.run([str(amtool), "check-config", str(config)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    routes = [str(amtool), "config", "routes", f"--config.file={config}"]
    shown = subprocess.run(routes, capture_output=True, text=True, check=True).stdout
    assert re.search(r'\{source="stream_guard"\}\s+receiver: on-call', shown)


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


def test_every_image_is_named_by_an_exact_version(root: Path, compose: Any) -> None:
    named = [service["image"] for service in compose["services"].values() if "image" in service]
    named += re.findall(r"^ARG \w+_IMAGE=(.+)$", (root / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    exact = re.compile(r"[\w./-]+:v?\d+\.\d+(\.\d+)?(-[a-z-]+)?(@sha256:[0-9a-f]{64})?")
    assert len(named) == 8
    assert [image for image in named if not exact.fullmatch(image)] == []


def test_image_is_compiled_and_its_bases_can_be_given_by_digest(root: Path) -> None:
    stages = re.findall(r"^FROM (\S+)", (root / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    assert stages == ["${BUILD_IMAGE}", "${RUN_IMAGE}"]
    build = (root / "deploy" / "Dockerfile").read_text()
    assert "HATCH_BUILD_HOOK_ENABLE_CUSTOM=true" in build
    needed = re.search(r"^dependencies = \[(.+)\]$", (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert needed is not None
    locked = (root / "deploy" / "build.lock").read_text()
    assert [pin for pin in re.findall(r'"([\w.-]+==[\w.]+)"', needed[1]) if f"{pin} " not in locked] == []


def test_hadolint_finds_nothing_in_the_dockerfile(root: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    require(hadolint.exists(), "hadolint is missing; `make setup-dev` installs it")
    command = [str(hadolint), "--no-color", str(root / "deploy" / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


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
    with urlopen(f"{url}/healthz", timeout=60) as answer:
        assert answer.status == 200
    with urlopen(f"{url}/metrics", timeout=60) as answer:
        assert re.search(r"^stream_guard_rules_loaded [1-9]", answer.read().decode(), re.MULTILINE)
    guard.send_signal(signal.SIGTERM)
    assert guard.wait(30) == 0


def test_the_collector_keys_records_by_trace_where_other_clients_would_put_them(root: Path) -> None:
    config = read(root / "deploy" / "collector" / "collector.yaml")
    kafka = config["exporters"]["kafka"]
    assert kafka["partition_traces_by_id"] is True
    assert kafka["record_partitioner"] == {"sticky_key": {"hasher": "murmur2"}}
    for pipeline in config["service"]["pipelines"].values():
        assert set(pipeline["receivers"]) <= set(config["receivers"])
        assert set(pipeline["exporters"]) == set(config["exporters"])
