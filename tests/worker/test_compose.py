"""The compose file without containers: its worker and its sample agents on a real broker, its Alertmanager, on-call."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests import processes
from tests.kafka.cluster import Cluster
from tests.monitoring import deployed_config, on_call, running_alertmanager

pytestmark = pytest.mark.kafka


def test_what_sample_agents_do_wakes_whoever_is_on_call(cluster: Cluster, root: Path, tmp_path: Path) -> None:
    services = YAML(typ="safe", pure=True).load(root / "docker-compose.yml")["services"]
    places = {f"/policies/${{POLICY:-{name}}}": f"{root}/deploy/policies/{name}" for name in ("refunds.yaml",)}
    for topic, partitions in {"agent-events": 6, "stream-guard.alerts": 6, "stream-guard.dead-letters": 1}.items():
        places[topic] = cluster.create(partitions)
    with on_call() as (url, told), running_alertmanager(tmp_path, deployed_config(url)) as manager:
        places |= {"http://alertmanager:9093": manager.url, "kafka:9092": cluster.address, "0.0.0.0": "127.0.0.1"}
        places |= {"9464": "0"}
        worker = start(services["worker"], places, tmp_path, "--group", places["agent-events"])
        try:
            produced = start(services["demo"], places, tmp_path)
            assert produced.wait(120) == 0, (tmp_path / "demo.log").read_text()
            assert any("critical confirm-before-refund refund-" in line for line in told)
        finally:
            worker.kill()
            worker.wait()
            cluster.delete([f"{places['agent-events']}-sessions-changelog"])


def start(service: dict[str, Any], places: dict[str, str], folder: Path, *more: str) -> subprocess.Popen[Any]:
    """Start what a container runs, with the addresses and paths of this machine."""

    def here(text: str) -> str:
        for there, place in places.items():
            text = text.replace(there, place)
        return text

    command = [here(word).replace("--sessions=600", "--sessions=20") for word in service["command"]]
    environment = {name: here(value) for name, value in service["environment"].items()}
    with (folder / f"{command[0]}.log").open("wb") as log:
        return processes.start(*command, *more, env=environment, cwd=folder, stdout=log, stderr=log)
