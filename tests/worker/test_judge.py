"""Workers on a real broker whose rules ask a judge, with one database: killed amid questions, they lose no alert."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Lock
from typing import Any

import msgspec
import pytest

from stream_guard.testing import events
from tests.history.postgres import Server, started
from tests.integration.test_judge_run import POLICY, by_amount
from tests.judge_end import Asked, JudgeEnd, Replied
from tests.kafka.cluster import Row
from tests.worker.fleet import Fleet

pytestmark = [pytest.mark.kafka, pytest.mark.long]

SESSIONS = 60
BUDGET = 90  # questions; those of a worker that was killed are asked again


@pytest.fixture
def postgres() -> Iterator[Server]:
    """The database in which questions wait."""
    with started() as server:
        yield server


class Holding:
    """A judge that answers nothing until it is told to."""

    def __init__(self) -> None:
        self.came, self.released = Event(), Event()
        self._lock, self._left = Lock(), 6

    def __call__(self, asked: Asked) -> Replied:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self.came.set()
        self.released.wait(120)
        return by_amount(asked)


def refunds() -> list[Row]:
    """Refunds of which those above 50 are wrong, and something that is wrong anyhow."""
    rows = []
    for number in range(SESSIONS):
        trace: list[dict[str, Any]] = [
            {"user": f"order {number}", "at": 1000 + number},
            {"call": "refund", "args": {"amount": 2 * number}, "at": 1001 + number},
            {"call": "drop", "at": 1002 + number},
        ]
        name = f"s{number}"
        rows += [Row(msgspec.json.encode(event), name.encode()) for event in events(trace, name)]
    return rows


def told(fleet: Fleet, rule: str) -> set[str]:
    """The sessions of a rule's alerts."""
    return {alert["subject"] for alert in fleet.sent() if alert["data"]["rule_id"] == rule}


def test_alerts_that_wait_for_a_judge_survive_a_killed_worker(fleet: Fleet, policy: Path, postgres: Server) -> None:
    policy.write_text(POLICY)
    holding = Holding()
    with JudgeEnd(holding) as end:
        settings = {
            "judge__url": end.url,
            "judge__model": "judge-1",
            # Those of a dead worker are asked again after it; what is held back for longer has no answer.
            "judge__timeout": "15",
            "judge__calls_per_day": str(BUDGET),
            "history__url": postgres.address,
        }
        names = [fleet.start(**settings), fleet.start(**settings)]
        fleet.cluster.fill(fleet.events, refunds())
        fleet.wait_until(holding.came.is_set)
        fleet.kill(names[0])
        holding.released.set()
        fleet.start(names[0], **settings)
        wrong = {f"s{number}" for number in range(SESSIONS) if 2 * number > 50}
        fleet.wait_until(lambda: told(fleet, "reasons") >= wrong)
        fleet.wait_until(lambda: len(told(fleet, "no-drop")) == SESSIONS)
        for name in names:
            fleet.stop(name)
    assert told(fleet, "reasons") == wrong
    assert SESSIONS <= len(end.asked) <= BUDGET
