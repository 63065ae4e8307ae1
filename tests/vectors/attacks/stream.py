"""A stream as ``run`` reads it: lines of a file or a folder, restarts in between, the end of the input last.

Events wait in the input until the next restart or the end. A run that is restarted follows its input and is stopped
when it has read everything, which ends no session. The last run reads to the end of the input.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest

from stream_guard.errors import PolicyError, SettingsError, StreamGuardError
from stream_guard.observability.metrics import Metrics
from stream_guard.policy.load import load_policy
from stream_guard.running.assembly import Assembly
from stream_guard.running.embedded import RunOptions, open_run
from stream_guard.settings import load_settings
from tests.vectors.attacks.catalogue import Catalogue
from tests.vectors.attacks.expectations import Outcome
from tests.vectors.attacks.processes import read_alerts, rule_ids
from tests.vectors.attacks.steps import plain_event, text_of
from tests.vectors.case import CannotRunError
from tests.vectors.measures import registry

_USAGE, _INFRASTRUCTURE = 2, 3  # exit codes of the command line
_QUIET: Final = 0.3  # seconds without a record after which a run has read what there is


class Streamed:
    """``run`` over a file, or a folder, with a checkpoint; its alerts go to a file."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        sections = dict(case.get("settings", {}))
        self._run = sections.pop("run", {})
        if self._run.get("command", "run") != "run":
            raise CannotRunError(f"the command {self._run['command']} needs a broker")
        self._settings = load_settings(None, **sections)
        self._kept = folder / "kept"
        self._kept.mkdir()
        (folder / "input").mkdir()
        self._input = folder / "input" / "events.jsonl"
        self._input.touch()
        self._alerts = self._kept / "alerts.jsonl"
        self._policy = case["policy"]
        self._catalogue = Catalogue(case)
        self._patience = float(self._run.get("seconds", 60))
        self._outcome = Outcome(rules=rule_ids(self._policy))

    def take(self, action: str, step: dict[str, Any]) -> dict[str, Any]:
        """Carry out a step."""
        if action not in _STEPS:
            raise CannotRunError(f"the step {action} has no place on a stream")
        told: dict[str, Any] | None = getattr(self, f"_{action}")(step)
        return told or {}

    def finish(self) -> Outcome:
        """Read to the end of the input and return what the case came to."""
        began = time.monotonic()
        self._read(follow=False)
        self._outcome.seconds = time.monotonic() - began
        return self._outcome

    def close(self) -> None:
        """Leave nothing open: every run has ended."""

    def _event(self, step: dict[str, Any]) -> None:
        self._append(json.dumps(self._catalogue.complete(plain_event(step["event"]))).encode())

    def _events(self, step: dict[str, Any]) -> None:
        for event in step["events"]:
            self._event({"event": event})

    def _line(self, step: dict[str, Any]) -> None:
        self._append(text_of(step["line"]).encode(step.get("encoding", "utf-8")))

    def _append(self, line: bytes) -> None:
        with self._input.open("ab") as file:
            file.write(line + b"\n")

    def _restart(self, step: dict[str, Any]) -> dict[str, Any]:
        self._read(follow=True, kill=step["restart"] == "kill")
        if "policy" in step:
            self._policy = step["policy"]
            self._outcome.rules |= rule_ids(self._policy)
        return {"findings": self._outcome.findings()}

    def _move(self, step: dict[str, Any]) -> None:
        self._input.rename(self._input.with_name(step["move"]))
        self._input.touch()

    def _empty(self, _step: dict[str, Any]) -> None:
        with self._input.open("r+b") as file:
            file.truncate()

    def _copy_back(self, _step: dict[str, Any]) -> None:
        copy = self._input.with_name(".copy")
        shutil.copy2(self._input, copy)
        copy.replace(self._input)

    def _read(self, *, follow: bool, kill: bool = False) -> None:
        """Run until everything is read; the exit code is the one the command line would have."""
        try:
            with self._running(follow=follow) as wait:
                wait()
                if kill:
                    shutil.copytree(self._kept, self._kept.with_name("as-killed"))
            self._outcome.exit = 0
        except (PolicyError, SettingsError):
            self._outcome.exit = _USAGE
        except StreamGuardError:
            self._outcome.exit = _INFRASTRUCTURE
        if kill:
            shutil.rmtree(self._kept)
            self._kept.with_name("as-killed").rename(self._kept)
        self._outcome.alerts = read_alerts(self._alerts)

    @contextmanager
    def _running(self, *, follow: bool) -> Iterator[Any]:
        installed, form = registry(), self._run.get("from_format", "native")
        policy = load_policy(json.dumps(self._policy), installed, file="case.json")
        source = self._input.parent if self._run.get("source") == "folder" else self._input
        options = RunOptions(
            source=str(source),
            policy=policy,
            alerts=(f"jsonl:{self._alerts}",),
            form=form,
            checkpoint=self._kept / "progress.db",
            dead_letters=str(self._kept / "letters.jsonl"),
            follow=follow,
            serve=False,
        )
        stop, failures = Flag(), list[BaseException]()
        with Assembly(self._settings, installed) as assembly:
            ready = open_run(options, assembly, stop)
            metrics = CollectorRegistry()
            Metrics(ready.counts, metrics).use_rules(policy.rules)

            def work() -> None:
                try:
                    ready.runner.run(stopped=stop.is_set)
                except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
                    failures.append(error)

            def wait() -> None:
                if follow:
                    self._wait_until_quiet(lambda: ready.counts.records, thread)

            thread = Thread(target=work)
            thread.start()
            try:
                yield wait
            finally:
                if follow:
                    stop.set()
                thread.join(self._patience)
                stop.set()
                thread.join()
                self._outcome.alarms.read(generate_latest(metrics).decode())
        if failures:
            raise failures[0]

    def _wait_until_quiet(self, count: Any, thread: Thread) -> None:
        """Wait until no record has come for a moment, and all that the input holds has."""
        end = time.monotonic() + self._patience
        seen, since = -1, time.monotonic()
        while thread.is_alive() and time.monotonic() < end:
            now = count()
            if now != seen:
                seen, since = now, time.monotonic()
            if time.monotonic() - since >= (_QUIET if seen else 4 * _QUIET):
                return
            time.sleep(0.02)


_STEPS: Final = frozenset(("event", "events", "line", "restart", "move", "empty", "copy_back"))
