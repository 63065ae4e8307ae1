"""``--jobs`` as a user meets it: the same report, one process where it must be, and no half report."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stream_guard.cli.demo import write_samples
from tests import processes

HOSTILE = b"""{broken
{"kind": "tool_call", "session_id": "refund-00001", "tool": "pay", "args": {"session_id": "refund-00002"
{"kind": "tool_call", "session_id": "refund-00003", "tool": "pay", "session_id": "refund-00004"}
{"sessionId": "refund-00001", "type": "user", "uuid": "1", "message": {"role": "user", "content": "hello"}}
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    write_samples(folder, 60)
    lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "parts").mkdir()
    for number in range(3):
        part = lines[number::3]  # sessions go on in the next file
        (folder / "parts" / f"{number}.jsonl").write_bytes(b"".join(part[:200]) + HOSTILE + b"".join(part[100:]))
    return folder


@pytest.mark.parametrize(("form", "jobs"), [("table", "2"), ("json", "3")])
def test_check_reports_the_same_byte_for_byte(archive: Path, form: str, jobs: str) -> None:
    command = ("check", archive / "parts", archive / "events.jsonl", "--policy", archive / "policy.yaml")
    alone = processes.run(*command, "--format", form)
    assert alone.returncode == 1
    assert b"dead letters" in alone.stderr
    shared = processes.run(*command, "--format", form, "--jobs", jobs)
    assert (shared.stdout, shared.stderr, shared.returncode) == (alone.stdout, alone.stderr, alone.returncode)


def test_rules_across_sessions_are_judged_by_one_process_which_says_so(archive: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    rule = "{ id: no-ledger, kind: no_call, params: { tool: adjust_ledger }, key: [agent] }"
    policy.write_text(f"rules:\n  - {rule}\n", encoding="utf-8")
    command = ("check", archive / "events.jsonl", "--policy", policy, "--format", "json")
    alone, shared = processes.run(*command), processes.run(*command, "--jobs", "3")
    assert shared.stderr.startswith(b"one process: the key of no-ledger spans sessions")
    assert (shared.stdout, shared.returncode) == (alone.stdout, alone.returncode)


def test_standard_input_is_read_by_one_process_which_says_so(archive: Path) -> None:
    lines = (archive / "events.jsonl").read_bytes()
    command = ("check", "-", "--policy", archive / "policy.yaml", "--format", "json")
    alone, shared = processes.run(*command, stdin=lines), processes.run(*command, "--jobs", "2", stdin=lines)
    assert shared.stderr.startswith(b"one process: - can be read once")
    assert (shared.stdout, shared.returncode) == (alone.stdout, alone.returncode)


@pytest.mark.parametrize("jobs", ["65", "many"])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(archive: Path, jobs: str) -> None:
    done = processes.run("check", archive / "events.jsonl", "--policy", archive / "policy.yaml", f"--jobs={jobs}")
    assert done.returncode == 2
    assert b"give a number from 1 to 64, or auto" in done.stderr


@pytest.mark.parametrize(
    "victim", ["child", *(pytest.param(victim, marks=pytest.mark.long) for victim in ("leader", "leader, at once"))]
)
def test_a_check_that_is_ended_half_way_reports_nothing_and_leaves_nobody(
    archive: Path, tmp_path: Path, victim: str
) -> None:
    lines = (archive / "events.jsonl").read_bytes()
    long = tmp_path / "long.jsonl"  # for seconds: it must not be over before it is ended
    long.write_bytes(lines * (100_000_000 // len(lines)))
    command = ("check", long, "--policy", archive / "policy.yaml", "--jobs", "3")
    process = processes.start(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, fresh=True, preexec_fn=_take_interrupts
    )
    child = _first_share(process)
    if victim == "child":
        os.kill(child, signal.SIGKILL)
    else:
        process.send_signal(signal.SIGINT if victim == "leader" else signal.SIGKILL)
    out, said = process.communicate(timeout=120)  # ends when nobody holds the pipes any more: no process is left
    assert out == b""
    if victim == "child":
        assert process.returncode == 3
        assert b"of 3 ended with exit code -9; start again: nothing was reported" in said
    else:
        assert process.returncode != 0


def _take_interrupts() -> None:
    """Undo what a shell does to those it starts in the background: they, and theirs, are not interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _first_share(process: subprocess.Popen[bytes]) -> int:
    """Return the id of a process that a share is judged in, as soon as there is one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split():
            if b"stream_guard" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("no process was started")
