"""The command line as a process of its own: started, watched, ended by its id."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Final

from tests import processes
from tests.vectors.case import WrongAnswerError

PATIENCE: Final = 60.0  # seconds for what should take one


class Process:
    """One process; what it says on standard error is kept in a file, and its greatest size is watched."""

    def __init__(
        self, folder: Path, *words: str, launcher: tuple[str, ...] = processes.COMMAND, fresh: bool = False
    ) -> None:
        self._log = folder / "stderr.log"
        self._began = time.monotonic()
        self.seconds = 0.0
        self.peak_mb = 0.0
        with self._log.open("ab") as log:
            self._start = log.tell()
            self._process: subprocess.Popen[bytes] = processes.start(
                *words,
                launcher=launcher,
                fresh=fresh,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
            )
        self._watch = threading.Thread(target=self._measure, daemon=True)
        self._watch.start()

    @property
    def exit(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """Return what it said on standard error so far."""
        return self._log.read_bytes()[self._start :].decode("utf-8", "replace")

    def wait_for(self, words: str) -> str:
        """Return the rest of the line that begins with the words, once it is there."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for line in self.said().splitlines(keepends=True):
                if words in line and line.endswith("\n"):
                    return line.split(words, 1)[1].strip()
            if self.exit is not None:
                break
            time.sleep(0.02)
        raise WrongAnswerError(f"the process did not come up: {self.said()[-500:]}")

    def finish(self, seconds: float) -> bytes:
        """Wait for its end, and end it after so many seconds; return what it printed."""
        try:
            printed, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            printed = b""
        self.seconds = time.monotonic() - self._began
        return printed

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait for the end; what does not end is killed."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._watch.join(1)

    def _measure(self) -> None:
        status = Path(f"/proc/{self._process.pid}/status")
        while self._process.poll() is None:
            try:
                peaks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
            except OSError:
                return
            if peaks:
                self.peak_mb = max(self.peak_mb, int(peaks[0].split()[1]) / 1024)
            time.sleep(0.02)


def write_inputs(folder: Path, policy: Any, sections: dict[str, Any]) -> tuple[Path, Path]:
    """Write the policy and the settings as files, and return them."""
    policy_file, settings_file = folder / "policy.json", folder / "settings.yaml"
    policy_file.write_text(json.dumps(policy), encoding="utf-8")
    settings_file.write_text(json.dumps(sections), encoding="utf-8")  # JSON is YAML
    return policy_file, settings_file


def rule_ids(policy: Any) -> frozenset[str]:
    """Return the ids of a policy's rules, those of its agents too."""
    if not isinstance(policy, dict):
        return frozenset()
    agents = policy.get("agents") or {}
    inner = agents.values() if isinstance(agents, dict) else agents
    rows = [*(policy.get("rules") or ()), *(rule for agent in inner for rule in (agent or {}).get("rules") or ())]
    return frozenset(str(rule.get("id")) for rule in rows if isinstance(rule, dict))


def read_alerts(file: Path) -> list[dict[str, Any]]:
    """Return the alerts in a file of JSON lines; none without a file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
