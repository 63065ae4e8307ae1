"""Debian's Prometheus and Alertmanager on loopback, and whoever is on call, as the files in deploy/ set them up."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer
from typing import Any, Final

import httpx

from tests import plain_http
from tests.parts import find_promtool, require
from tests.ports import free_port

ROOT: Final = Path(__file__).parents[1]
DEPLOY: Final = ROOT / "deploy"


class RealAlertmanager:
    """Debian's package, on loopback, with a folder of its own; it can be stopped and started again."""

    def __init__(self, program: str, folder: Path, config: str) -> None:
        self._program, self._folder = program, folder
        self._config = folder / "alertmanager.yml"
        self._config.write_text(config)
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [self._program, f"--config.file={self._config}", f"--storage.path={self._folder}/data"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}", "--cluster.listen-address=", "--log.level=error"]
        self._process = subprocess.Popen(command, cwd=self._folder)
        eventually(lambda: is_ready(self.url))

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def alerts(self, **filters: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = plain_http.get(f"{self.url}/api/v2/alerts", params=filters).json()
        return found

    def groups(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = plain_http.get(f"{self.url}/api/v2/alerts/groups").json()
        return found

    def silence(self, session: str) -> None:
        now = datetime.now(UTC)
        matcher = {"name": "session", "value": session, "isRegex": False, "isEqual": True}
        wanted = {"matchers": [matcher], "startsAt": now.isoformat(), "createdBy": "ada", "comment": "known"}
        wanted["endsAt"] = (now + timedelta(hours=1)).isoformat()
        plain_http.post(f"{self.url}/api/v2/silences", json=wanted).raise_for_status()


@contextmanager
def running_alertmanager(folder: Path, config: str) -> Iterator[RealAlertmanager]:
    """Run an Alertmanager with this configuration."""
    program = shutil.which("prometheus-alertmanager")
    require(program, "Alertmanager is missing (Debian: apt-get install prometheus-alertmanager)")
    made = RealAlertmanager(str(program), folder, config)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@contextmanager
def on_call() -> Iterator[tuple[str, Iterator[str]]]:
    """Run the service on-call of the compose file; yield its address, and what it prints."""
    command = [sys.executable, str(DEPLOY / "alertmanager" / "on_call.py"), "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watchdog = Timer(120, process.kill)  # whoever reads what it never prints reads its end
    watchdog.start()
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1], process.stdout
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def deployed_config(url: str) -> str:
    """Return the configuration of the compose file's Alertmanager, for a receiver here that nobody waits for."""
    config = (DEPLOY / "alertmanager" / "alertmanager.yml").read_text().replace("http://on-call:8080", url)
    return re.sub(r"(group_wait): \d+s", r"\1: 100ms", config)


class RealPrometheus:
    """Debian's Prometheus with the configuration of the compose file, but everything in it happens every second."""

    def __init__(self, folder: Path, target: str, alertmanager: str) -> None:
        program = shutil.which("prometheus") or Path(find_promtool(ROOT) or "missing").with_name("prometheus")
        require(Path(program).exists(), "Prometheus is missing; `make setup-tests` says how to get it")
        for name in ("prometheus.yml", "recording.yml", "alerts.yml"):
            text = (DEPLOY / "prometheus" / name).read_text()
            text = re.sub(r"(interval|for): \d+[smh]", r"\1: 1s", text).replace("alertmanager:9093", alertmanager)
            found = f'static_configs: [{{targets: ["{target}"]}}]'
            (folder / name).write_text(re.sub(r"(?s)dns_sd_configs:.*", found, text))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [str(program), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/metrics"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        self._process = subprocess.Popen(command, cwd=folder)

    def query(self, expression: str) -> dict[str, float]:
        """Return the values of an expression, each by its rule."""
        found = self._ask("query", query=expression)["result"]
        return {one["metric"].get("rule", ""): float(one["value"][1]) for one in found}

    def health(self) -> set[str]:
        """Return how the evaluation of each alarm and recording went."""
        return {rule["health"] for group in self._ask("rules")["groups"] for rule in group["rules"]}

    def _ask(self, what: str, **parameters: str) -> Any:
        return plain_http.get(f"{self.url}/api/v1/{what}", params=parameters).raise_for_status().json()["data"]

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@contextmanager
def running_prometheus(folder: Path, target: str, alertmanager: str) -> Iterator[RealPrometheus]:
    """Run a Prometheus that scrapes the target and tells the Alertmanager."""
    made = RealPrometheus(folder, target, alertmanager)
    try:
        eventually(lambda: is_ready(made.url))
        yield made
    finally:
        made.stop()


def is_ready(url: str) -> bool:
    """Whether the server at an address says that it is."""
    try:
        return plain_http.get(f"{url}/-/ready").is_success
    except httpx.HTTPError:
        return False


def eventually(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.05)
