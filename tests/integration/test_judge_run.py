"""A rule that asks a judge, on the stream and in batch: the alert waits, and a replay repeats the answer uncalled."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from pathlib import Path
from threading import Event
from typing import Any

import msgspec

from stream_guard.testing import events
from tests.judge_end import Asked, JudgeEnd, Replied, broken, kept
from tests.processes import run, start

POLICY = """
rules:
  - id: reasons
    kind: must_satisfy_judge
    params: {rule: Refunds need a reason., tool: refund}
  - {id: no-drop, kind: no_call, params: {tool: drop}}
"""


def by_amount(asked: Asked) -> Replied:
    """Refunds of more than 50 are broken."""
    return broken(asked) if asked.lines[-1]["args"]["amount"] > 50 else kept(asked)


def write_world(folder: Path) -> None:
    (folder / "policy.yaml").write_text(POLICY)
    lines = []
    for number in range(6):
        trace: list[dict[str, Any]] = [
            {"user": f"order {number}", "at": 1000 + number},
            {"call": "refund", "args": {"amount": 20 * number, "password": "hunter2-and-more"}, "at": 1001 + number},
            {"call": "drop", "at": 1002 + number},
        ]
        lines += [msgspec.json.encode(event) for event in events(trace, f"s{number}")]
    (folder / "events.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def environment(folder: Path, end: JudgeEnd | None) -> dict[str, str]:
    judge = {"MODEL": "judge-1", "INPUT_PRICE": "3", "OUTPUT_PRICE": "15", "URL": "" if end is None else end.url}
    return {f"STREAM_GUARD_JUDGE__{name}": text for name, text in judge.items()} | {
        "STREAM_GUARD_HISTORY__URL": str(folder / "history.db")
    }


def call(folder: Path, end: JudgeEnd | None, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return run(*arguments, env=environment(folder, end), cwd=folder)


CHECK = ("check", "events.jsonl", "--policy", "policy.yaml", "--format", "jsonl")


def test_a_replay_repeats_every_answer_byte_for_byte_without_a_call(tmp_path: Path) -> None:
    write_world(tmp_path)
    with JudgeEnd(by_amount) as end:
        ran = call(tmp_path, end, "run", "events.jsonl", "--policy", "policy.yaml", "--alerts", "jsonl:live.jsonl")
        asked = len(end.asked)
        checked = call(tmp_path, end, *CHECK, "--ask")
        assert (ran.returncode, asked, len(end.asked)) == (0, 6, 6), ran.stderr.decode()
    assert "hunter2" not in json.dumps([asked.body for asked in end.asked])
    again = call(tmp_path, None, *CHECK)
    replayed = call(tmp_path, None, "replay", "events.jsonl", "--policy", "policy.yaml", "--emit", "jsonl:again.jsonl")
    assert checked.stdout == again.stdout, again.stderr.decode()
    assert replayed.returncode == 0, replayed.stderr.decode()
    live = sorted((tmp_path / "live.jsonl").read_bytes().replace(f"{tmp_path}/".encode(), b"").splitlines())
    assert live == sorted((tmp_path / "again.jsonl").read_bytes().splitlines())
    assert sum(b'"reasons"' in line for line in live) == 3


def test_a_policy_that_asks_is_inconclusive_without_answers(tmp_path: Path) -> None:
    write_world(tmp_path)
    checked = call(tmp_path, None, *CHECK)
    assert b"reasons" in checked.stderr
    assert b"the answer of a judge" in checked.stderr
    assert not (tmp_path / "history.db").exists()


def test_an_alert_that_waits_survives_a_kill_and_goes_out_once(tmp_path: Path) -> None:
    write_world(tmp_path)
    released, came = Event(), Event()

    def hold(asked: Asked) -> Replied:
        came.set()
        released.wait()
        return by_amount(asked)

    arguments = ("run", "events.jsonl", "--policy", "policy.yaml", "--checkpoint", "state.db")
    with JudgeEnd(hold) as end:
        killed = start(
            *arguments,
            "--alerts",
            "jsonl:live.jsonl",
            env=environment(tmp_path, end),
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert came.wait(60)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        released.set()
        with sqlite3.connect(tmp_path / "history.db") as history:  # as if the time of its calls had passed
            history.execute("UPDATE sg_inquiries SET until = 0")
        history.close()
        ran = call(tmp_path, end, *arguments, "--alerts", "jsonl:live.jsonl")
    assert ran.returncode == 0, ran.stderr.decode()
    ids = [json.loads(line)["alert_id"] for line in (tmp_path / "live.jsonl").read_text().splitlines()]
    assert len(ids) == len(set(ids)) == 9
