"""A history of the version before is brought up to date when it is opened: nothing is lost, and all or nothing happens.

``tests/golden/stored/history_v2.sql`` was written by the code of that version: blocks, a pause that waits, one that was
approved, a session that was ended, an approval that was used, and a refusal.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from stream_guard.errors import StoreError
from stream_guard.guard.gate import Gate
from stream_guard.guard.reviews import Reviews
from stream_guard.history import audit, incidents, retention
from stream_guard.history import database as database_module
from stream_guard.history.database import VERSION, Statements, open_database
from stream_guard.judge.model import Action, ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import HistorySettings

STORED = Path(__file__).parents[2] / "golden" / "stored"
POLICY = """
rules:
  - {id: no-drop, kind: no_call, params: {tool: drop}, then: block, severity: error, reason: Tables stay.}
  - {id: ask, kind: no_call, params: {tool: pay}, then: pause}
  - {id: leak, kind: no_call, params: {tool: leak}, then: terminate_session, severity: critical}
"""
NOW = 1767600100.0  # before the reviews expire


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "history.db"
    with sqlite3.connect(path) as db:
        db.executescript((STORED / "history_v2.sql").read_text())
    db.close()
    return path


def contents(path: Path) -> list[str]:
    db = sqlite3.connect(path)
    try:
        return sorted(db.iterdump())
    finally:
        db.close()


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return what every table has, without the columns that versions since have added."""
    with sqlite3.connect(path) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        first = {"sg_rulings": "attempt, call, body", "sg_ended": "session, body", "sg_acs_sessions": "session, body"}
        found = {name: sorted(db.execute(f"SELECT {first.get(name, '*')} FROM {name}")) for name in tables}
    db.close()
    return {name: listed for name, listed in found.items() if listed and name not in ("sg_history", "sg_alerts")}


def test_a_history_of_a_version_before_keeps_everything_and_goes_on(old: Path) -> None:
    before = rows(old)
    database = open_database(str(old))
    assert database.read("SELECT version FROM sg_history") == [(VERSION,)]
    assert rows(old) == before
    checked = audit.verify(database)
    assert checked.problems == ()
    assert checked.head.number == len(before["sg_audit"])
    reviews = Reviews(database, clock=lambda: NOW)
    gate = Gate(load_policy(POLICY, build_registry()), database, reviews=reviews, clock=lambda: NOW)

    def check(session: str, tool: str, number: int) -> Action:
        return gate.check(
            ToolCall(session_id=session, tool=tool, call_id=f"c{number}", event_id=f"e{number}", args={"n": number})
        ).action

    assert check("s3", "read", 9) is Action.TERMINATE_SESSION  # it was ended
    assert check("s2", "pay", 3) is Action.ALLOW  # it was approved
    assert check("s1", "pay", 2) is Action.PAUSE  # it waits
    assert [review.session_id for review in reviews.listing("open")] == ["s1"]
    assert audit.verify(database).problems == ()
    database.close()


def test_opened_again_nothing_more_happens(old: Path) -> None:
    open_database(str(old)).close()
    first = contents(old)
    open_database(str(old)).close()
    assert contents(old) == first


def test_a_step_that_fails_leaves_the_history_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(old)
    step = database_module._name_records

    def fails_at_the_end(statements: Statements) -> None:
        step(statements)
        raise StoreError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(database_module, "_name_records", fails_at_the_end)
        with pytest.raises(StoreError, match="no space left"):
            open_database(str(old))
    assert contents(old) == before
    open_database(str(old)).close()


@pytest.mark.parametrize("version", [0, 1, VERSION + 1])
def test_a_version_that_is_not_known_is_refused_and_not_changed(old: Path, version: int) -> None:
    with sqlite3.connect(old) as db:
        db.execute("UPDATE sg_history SET version = ?", (version,))
    db.close()
    before = contents(old)
    with pytest.raises(StoreError, match=f"a history of version {version}, this is version {VERSION}; use the"):
        open_database(str(old))
    assert contents(old) == before


def test_what_came_before_the_records_had_rows_is_pruned_in_the_end(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = open_database(str(old))
    monkeypatch.setattr(retention, "_ROWS", 2)
    assert retention.prune(database, HistorySettings(keep=30 * 86_400.0))["sg_audit"]
    assert audit.verify(database).problems == ()
    left = {review.session_id for review in Reviews(database, clock=lambda: NOW).listing("open")}
    assert left == {"s1"}, "it waits, for a person who was away"
    assert [incident.status for incident in incidents.listing(database)] != []
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 400 * 86_400.0)
    retention.prune(database, HistorySettings())
    assert audit.verify(database).problems == ()
    assert database.read("SELECT count(*) FROM sg_rulings") == [(0,)]
    database.close()
