"""``replay`` as a user meets it: with processes, checkpoints, sinks and signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from stream_guard.cli import progress
from stream_guard.cli.demo import write_samples
from tests import processes

SPANNING = """
rules:
  - { id: no-ledger, kind: no_call, params: { tool: adjust_ledger }, key: [agent] }
"""


def guard(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return processes.run(*arguments, env=variables)


def start(*arguments: str | Path, **variables: str) -> subprocess.Popen[bytes]:
    return processes.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    write_samples(folder, 200)
    return folder


@pytest.fixture(scope="module")
def checked(archive: Path) -> bytes:
    command = ["check", archive / "events.jsonl", "--policy", archive / "policy.yaml", "--format", "jsonl"]
    done: subprocess.CompletedProcess[bytes] = processes.run(*command, fresh=True)
    assert done.returncode == 1
    assert done.stdout.count(b"\n") > 50
    assert without_lines(done.stdout) != done.stdout
    return bytes(done.stdout)


def without_lines(alerts: bytes) -> bytes:
    """Return alerts without their places: what one process read, the next does not know."""
    return re.sub(rb',"file":"[^"]*","line":\d+\}$', b"}", alerts, flags=re.MULTILINE)


@pytest.mark.parametrize(("processes", "records"), [(1, 5000), (1, 7), (3, 500)])
def test_replay_prints_what_check_prints_whatever_the_processes_and_batches(
    archive: Path, checked: bytes, processes: int, records: int
) -> None:
    done = guard(
        "replay",
        archive / "events.jsonl",
        "--policy",
        archive / "policy.yaml",
        "--format",
        "jsonl",
        "--processes",
        str(processes),
        STREAM_GUARD_COMMIT__RECORDS=str(records),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == checked


def test_a_killed_replay_goes_on_and_its_sink_holds_every_alert_once(
    archive: Path, checked: bytes, tmp_path: Path
) -> None:
    command: list[str | Path] = ["replay", archive / "events.jsonl", "--policy", archive / "policy.yaml"]
    command += [
        "--format",
        "jsonl",
        "--processes",
        "2",
        "--checkpoint",
        tmp_path / "cp",
        "--emit",
        f"jsonl:{tmp_path / 'out.jsonl'}",
    ]
    small = {"STREAM_GUARD_COMMIT__RECORDS": "50"}
    process = start(*command, **small)
    assert process.stdout is not None
    process.stdout.readline()  # it has begun to print: some batch is out, and not all
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    done = guard(*command, **small)
    assert done.returncode == 0, done.stderr
    assert without_lines((tmp_path / "out.jsonl").read_bytes()) == without_lines(checked)
    again = guard(*command, **small)
    assert (again.returncode, again.stdout) == (0, b"")


def test_without_emit_nothing_is_written_anywhere(archive: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in archive.iterdir())
    guard("replay", archive, "--policy", archive / "policy.yaml", "--format", "jsonl")
    assert sorted(path.name for path in archive.iterdir()) == before


def test_a_checkpoint_of_another_replay_is_refused(archive: Path, tmp_path: Path) -> None:
    command = ("replay", archive / "events.jsonl", "--policy", archive / "policy.yaml", "--checkpoint", tmp_path / "cp")
    assert guard(*command).returncode == 0
    done = guard(*command, "--to", "2030-01-01")
    assert done.returncode == 2
    assert b"was begun with --to inf" in done.stderr


def test_a_key_that_spans_sessions_means_one_process_and_says_so(archive: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(SPANNING, encoding="utf-8")
    done = guard("replay", archive / "events.jsonl", "--policy", policy, "--processes", "3")
    assert done.returncode == 0
    assert b"one process: the key of no-ledger spans sessions" in done.stderr


def test_original_pace_can_be_stopped_and_says_how_to_go_on(archive: Path, tmp_path: Path) -> None:
    command = ("replay", archive / "events.jsonl", "--policy", archive / "policy.yaml", "--format", "jsonl")
    process = start(*command, "--pace", "original", "--speed", "20", "--checkpoint", tmp_path / "cp")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert first["session_id"] == "refund-00003"
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4, said
    assert b"stopped before the end; it goes on from here with the same command" in said


def test_json_is_one_list(archive: Path) -> None:
    done = guard("replay", archive / "events.jsonl", "--policy", archive / "policy.yaml", "--format", "json")
    assert len(json.loads(done.stdout)) > 50


def test_findings_at_the_gate_exit_1(archive: Path) -> None:
    done = guard("replay", archive / "events.jsonl", "--policy", archive / "policy.yaml", "--fail-on", "critical")
    assert done.returncode == 1


def test_on_a_terminal_a_bar_shows_rate_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, theirs = os.openpty()
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)  # else the bar waits until the work has taken a moment
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with os.fdopen(theirs, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with progress.show_progress(progress.Extent(1000)) as watch:
            watch(10, {"file": 100})
            watch(20, {"file": 200})
    shown = b""
    with suppress(OSError):  # how Linux says that nobody holds the other end
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    assert re.search(rb"replay.*20 records, [\d,]+/s about \d+ s left", shown)
