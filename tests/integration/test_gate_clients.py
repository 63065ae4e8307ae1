"""Sixty-four clients, reviewers and kills against one server: nothing forbidden is allowed, no yes counts twice."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx

from tests import plain_http, processes

POLICY: Final = """
rules:
  - {id: rm, kind: no_call, params: {tool: rm}, then: block}
  - {id: big, kind: tool_guard, then: pause, params: {when: {tool_name_in: [pay], arg_gt: {path: amount, value: 5}}}}
  - {id: bomb, kind: no_call, params: {tool: bomb}, then: terminate_session}
"""
CLIENTS, STEPS, SESSIONS = 64, 6, 16
CONTESTED: Final = '{"amount": 10, "amount": 1}'
ARGS: Final = ({"amount": 1}, {"amount": 10}, {"amount": 11}, CONTESTED, '{"amount": 10')


Waiting: TypeAlias = tuple[str, tuple[str, str]]
"""A review that is open, and the session and arguments that it is about."""


class Answers:
    """What clients were told, and what they may have been told at most."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.approved: Counter[tuple[str, str]] = Counter()
        self.used: dict[tuple[str, str], set[str]] = {}  # calls that got a yes, by session and arguments
        self.wrong: list[str] = []
        self.allowed = 0

    def take(self, body: dict[str, Any], told: dict[str, Any], *, was_ended: bool) -> None:
        session, args = body["session_id"], str(body["args"])
        action = told["action"]
        if action == "terminate_session":
            self.ended.add(session)
        if action != "allow":
            return
        self.allowed += 1
        if was_ended:
            self.wrong.append(f"allowed after the end of {session}: {body}")
        if body["tool"] in ("rm", "bomb") or body["args"] == CONTESTED:
            self.wrong.append(f"never to be allowed: {body}")
        if body["tool"] == "pay" and body["args"] != {"amount": 1}:
            self.used.setdefault((session, args), set()).add(body["call_id"])

    def check(self) -> None:
        assert self.wrong == []
        for binding, calls in self.used.items():
            assert len(calls) <= self.approved[binding], binding


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    (folder / "policy.yaml").write_text(POLICY)
    command = ["serve", "--policy", folder / "policy.yaml", "--port", "0", "--history", folder / "history.db"]
    command += ["--checkpoint", folder / "checkpoint.db"]
    process = processes.start(*command, stderr=subprocess.PIPE, text=True, env={"STREAM_GUARD_API__BUDGET": "60"})
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("listening at "), line
        yield line.removeprefix("listening at ").strip(), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        process.stderr.close()


async def _client(http: httpx.AsyncClient, seed: int, answers: Answers, waiting: list[Waiting]) -> None:
    chance = random.Random(seed)
    for _ in range(STEPS):
        session = f"s{chance.randrange(SESSIONS)}"
        if waiting and chance.random() < 0.3:
            review, binding = waiting.pop(chance.randrange(len(waiting)))
            answer = await http.post(f"/v1/reviews/{review}/approve", json={"by": f"person-{seed}"})
            answers.approved[binding] += answer.status_code == 200
            continue
        body = {
            "session_id": session,
            "call_id": f"c{chance.randrange(3)}",
            "tool": chance.choice(["pay", "pay", "pay", "rm", "look", "bomb" if session == "s0" else "look"]),
            "args": chance.choice(ARGS),
        }
        was_ended = session in answers.ended
        answer = await http.post("/v1/check", json=body)
        if answer.status_code == 200:
            told = answer.json()
            answers.take(body, told, was_ended=was_ended)
            if told["action"] == "pause":
                waiting.append((told["review"]["id"], (session, str(body["args"]))))


def test_no_order_of_many_clients_a_kill_and_reviewers_gets_a_forbidden_call_allowed(tmp_path: Path) -> None:
    answers, waiting = Answers(), list[Waiting]()

    async def work(url: str, seed: int) -> None:
        # Each with connections of its own: in a shared pool every request looks at those of all the others.
        async with plain_http.async_client(base_url=url, timeout=120) as http:
            await _client(http, seed, answers, waiting)

    async def work_all(url: str, part: int) -> None:
        await asyncio.gather(*(work(url, part * CLIENTS + number) for number in range(CLIENTS)))

    for part in range(2):
        with serving(tmp_path) as (url, process):
            asyncio.run(work_all(url, part))
            process.kill()
    answers.check()
    assert "s0" in answers.ended
    assert answers.allowed > CLIENTS
    assert answers.used
