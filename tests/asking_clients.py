"""Clients of one record of questions, in a process that may be killed: ``python -m tests.asking_clients``.

Each thread has a connection and a desk of its own, and asks questions that nobody else asks until its budget is gone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any, TypeVar

from stream_guard_judge.endpoint import ask

from stream_guard.asking.desk import QuestionDesk
from stream_guard.errors import StoreError
from stream_guard.history.database import open_database
from stream_guard.judge.model import Finding, Inquiry, Severity
from stream_guard.settings import JudgeSettings

ResultT = TypeVar("ResultT")


def question(name: str, calls_per_day: int) -> Finding:
    inquiry = Inquiry(words="Be kind.", excerpt=(json.dumps({"text": name}),), calls_per_day=calls_per_day)
    return Finding(
        alert_id=name,
        rule_id="kind",
        slot="kind",
        kind="must_satisfy_judge",
        severity=Severity.ERROR,
        session_id=name,
        event_id="e",
        index=None,
        time=1.0,
        detail="Be kind.",
        labels={"tenant": "t"},
        inquiry=inquiry,
    )


def work(job: dict[str, Any], name: str) -> None:
    database = open_database(job["database"])
    desk = QuestionDesk(database, JudgeSettings(**job["settings"]), ask, owner=name)
    desk.start()
    number = 0
    try:
        while not patiently(partial(desk.put, [question(f"{name}-{number}", job["calls_per_day"])], "v1")):
            patiently(desk.drain)
            patiently(desk.take_all)
            number += 1
    finally:
        desk.close()
        database.close()


def patiently(step: Callable[[], ResultT]) -> ResultT:
    """Do a step again while the others keep the file locked: SQLite does not say whose turn it is."""
    while True:
        try:
            return step()
        except StoreError as error:
            if "locked" not in str(error):
                raise


def main() -> None:
    job = json.loads(sys.argv[1])
    threads = [Thread(target=work, args=(job, f"{job['name']}-{number}")) for number in range(job["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
