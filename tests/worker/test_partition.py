"""A partition folds each record once, whatever is delivered again, and whichever of its rows reached the broker."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stream_guard.demo.sessions import sample_events
from stream_guard.errors import StoreError
from stream_guard.judge.model import Finding
from stream_guard.judge.rows import StoredSession
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.worker.partition import SessionPartition
from stream_guard.worker.rows import (
    ProgressRow,
    SessionRow,
    decode_session,
    encode_row,
    progress_key,
    session_key,
    session_prefix,
)
from tests.worker.partitions import Rows, fold_with_crashes, open_partition, write

TOPIC = "events"
NOW = 1_800_000_000.0  # the wall time, which is later than all events
ENDS_COUNT = SessionLimits(end_from=("*",))


@pytest.fixture
def loaded(policy: Path) -> Policy:
    return load_policy(policy, build_registry())


def records(sessions: int) -> list[Record]:
    """Sample sessions; every tenth never ends, and every seventh event has no id of its own."""
    found: list[Record] = []
    for event in sample_events(sessions):
        if event["kind"] == "session_end" and event["session_id"].endswith("0"):
            continue
        if len(found) % 7 == 0:
            event["event_id"] = ""
        found.append(Record(json.dumps(event).encode(), f"{TOPIC}/0", len(found)))
    return found


def reopen(rows: Rows, policy: Policy, now: float = NOW, limits: SessionLimits = ENDS_COUNT) -> SessionPartition:
    return open_partition(rows, policy, "native", now=lambda: now, limits=limits)


def states(rows: Rows) -> dict[bytes, tuple[Any, ...]]:
    """The states of the live sessions, without their lag behind the watermark."""
    prefix, found = session_prefix(0), {}
    for key, row in rows.items():
        if key.startswith(prefix) and (state := decode_session(row).state):
            session = msgspec.msgpack.decode(state, type=StoredSession)
            if session.resting:  # ended as idle
                continue
            rules = sorted((tag, key, bytes(raw)) for tag, key, raw in session.states)
            ids = len(session.recent + session.older)  # digests by a seed that is another in each run
            calls = [(call.call_id, call.tool, call.attempt) for call in session.open]
            found[key] = (session.seq, session.time, session.turns, session.part, session.attempts, rules, ids, calls)
    return found


def fold(rows: Rows, policy: Policy, given: list[Record], size: int = 50) -> set[str]:
    partition, found = reopen(rows, policy), list[Finding]()
    for start in range(0, len(given), size):
        partition.fold(TOPIC, given[start : start + size], found)
        write(rows, partition.snapshot())
    return {finding.alert_id for finding in found}


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 4, 5))])
def test_crashes_between_any_two_rows_leave_the_alerts_and_states_of_an_undisturbed_run(
    loaded: Policy, seed: int
) -> None:
    given, dice = records(60), random.Random(seed)
    whole: Rows = {}
    wanted = fold(whole, loaded, given)
    rows: Rows = {}
    found, crashes = fold_with_crashes(lambda: reopen(rows, loaded), rows, given, dice, batch=60, back=30)
    assert crashes > 5
    assert {finding.alert_id for finding in found} == wanted
    assert states(rows) == states(whole)


@pytest.mark.parametrize("limits", [SessionLimits(), ENDS_COUNT])
def test_rows_of_ended_sessions_are_deleted_when_they_were_silent(loaded: Policy, limits: SessionLimits) -> None:
    rows: Rows = {}
    given = records(30)
    partition, none = reopen(rows, loaded, limits=limits), list[Finding]()
    partition.fold(TOPIC, given, none)
    write(rows, partition.snapshot())
    kept = len(rows)
    late = given[-1].position + 1
    newest = max(json.loads(record.value).get("time", 0.0) for record in given)
    for number in range(6):  # the clock follows three sessions; sessions that never ended rest for as long again
        time = newest + 86_400 * (1 + number // 3)
        event = {"kind": "user_message", "session_id": f"later-{number % 3}", "time": time, "text": "hi"}
        partition.fold(TOPIC, [Record(json.dumps(event).encode(), f"{TOPIC}/0", late + number)], none)
    for _ in range(3):
        partition.fold(TOPIC, [], none)
        write(rows, partition.snapshot())
    assert kept > 30
    assert len(rows) == 3 + 1


def test_a_record_is_folded_once(loaded: Policy) -> None:
    rows: Rows = {}
    given = records(20)
    fold(rows, loaded, given)
    before = states(rows)
    assert fold(rows, loaded, given) == set()
    assert states(rows) == before


def test_an_idle_partition_advances_with_wall_time_also_over_a_restart(loaded: Policy) -> None:
    rows: Rows = {}
    fold(rows, loaded, records(20))
    assert states(rows)
    later, found = reopen(rows, loaded, now=NOW + 1.0), list[Finding]()
    assert later.tick(0.0, found) is False
    much_later = reopen(rows, loaded, now=NOW + 7_200.0)
    assert much_later.tick(0.0, found) is True
    write(rows, much_later.snapshot())
    assert states(rows) == {}


def test_the_next_offset_is_known_after_a_restart(loaded: Policy) -> None:
    rows: Rows = {}
    assert reopen(rows, loaded).next_offset(TOPIC) is None
    fold(rows, loaded, records(5))
    assert reopen(rows, loaded).next_offset(TOPIC) == len(records(5))


@pytest.mark.parametrize(
    "rows",
    [
        {progress_key(0): b"\x91\x02"},
        {progress_key(0): encode_row(ProgressRow(2, {}, None, 0.0))},
        {session_key(0, "s"): encode_row(SessionRow(2, {}, None, b"state"))},
    ],
    ids=["unreadable", "progress", "session"],
)
def test_rows_of_another_version_are_refused(loaded: Policy, rows: Rows) -> None:
    with pytest.raises(StoreError, match="another version"):
        reopen(rows, loaded)
