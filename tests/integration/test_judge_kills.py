"""Budgets of a judge are never exceeded, however many clients share them and whoever is killed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from threading import Condition

import pytest

from tests.judge_end import Asked, JudgeEnd, Replied, broken
from tests.processes import start


class Counting:
    """Answers, and tells how many questions have come."""

    def __init__(self) -> None:
        self.came = 0
        self._changed = Condition()

    def __call__(self, asked: Asked) -> Replied:
        with self._changed:
            self.came += 1
            self._changed.notify_all()
        return broken(asked)

    def wait_for(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.came >= number, 120)


@pytest.mark.parametrize(
    ("processes", "threads", "calls", "dollars"),
    [
        pytest.param(3, 3, 24, None, id="9 clients, calls"),
        pytest.param(8, 8, 200, None, id="64 clients, calls", marks=pytest.mark.long),
        pytest.param(8, 8, 10_000, 0.5, id="64 clients, dollars", marks=pytest.mark.long),
    ],
)
def test_clients_that_are_killed_spend_no_more_than_the_budget(
    tmp_path: Path, processes: int, threads: int, calls: int, dollars: float | None
) -> None:
    reply, chance = Counting(), random.Random(7)
    with JudgeEnd(reply) as end:
        settings = end.settings(dollars_per_day=dollars, calls_per_day=10**6, tenant_calls_per_day=10**6)
        job = {
            "database": str(tmp_path / "history.db"),
            "settings": json.loads(settings.model_dump_json()),
            "threads": threads,
            "calls_per_day": calls,
        }
        clients = [
            start(json.dumps({**job, "name": f"p{number}"}), launcher=("-m", "tests.asking_clients"))
            for number in range(processes)
        ]
        for client in clients[: processes // 2]:  # each dies amid questions
            reply.wait_for(reply.came + chance.randrange(1, 4))
            client.kill()
            client.wait()
        for client in clients[processes // 2 :]:
            assert client.wait() == 0
    assert len(end.asked) <= calls
    if dollars is None:
        # Of those that were killed, each thread may have taken a call that it never made.
        assert len(end.asked) >= calls - (processes // 2) * threads
    else:
        assert end.billed <= dollars
        assert end.billed > 0
