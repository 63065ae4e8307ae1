"""The history in a file: every claim about histories, and what can be wrong with the file."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_guard.errors import StoreError
from stream_guard.history.bypasses import Grant
from stream_guard.history.database import SqliteDatabase, open_database
from tests.history.claims import CLAIMS, World, call, review_of
from tests.history.page_claims import PAGE_CLAIMS
from tests.history.retention_claims import RETENTION_CLAIMS, kill_amid_pruning_leaves_a_history_in_order
from tests.history.review_claims import REVIEW_CLAIMS


@pytest.mark.parametrize(
    "claim", [*CLAIMS, *REVIEW_CLAIMS, *PAGE_CLAIMS, *RETENTION_CLAIMS], ids=lambda claim: claim.__name__
)
def test_in_a_file(claim: Callable[[World], None], tmp_path: Path) -> None:
    with World(lambda: SqliteDatabase(tmp_path / "history.db")) as world:
        claim(world)


def test_a_kill_amid_pruning_leaves_a_file_in_order(tmp_path: Path) -> None:
    with World(lambda: SqliteDatabase(tmp_path / "history.db")) as world:
        kill_amid_pruning_leaves_a_history_in_order(world, str(tmp_path / "history.db"))


def test_the_file_has_a_write_ahead_log(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "history.db")
    assert database.read("PRAGMA journal_mode") == [("wal",)]
    database.close()


def test_the_file_and_its_log_are_for_this_account_alone(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "history.db")
    with database.transaction() as statements:
        statements.run("UPDATE sg_history SET version = version")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    database.close()
    assert modes == dict.fromkeys(("history.db", "history.db-wal", "history.db-shm"), 0o600)


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE precious (x)")
    other.close()
    with pytest.raises(StoreError, match=r"other\.db: a database, but not a history"):
        SqliteDatabase(tmp_path / "other.db")


def test_a_history_of_another_version_is_refused(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "history.db")
    with database.transaction() as statements:
        statements.run("UPDATE sg_history SET version = 9")
    database.close()
    with pytest.raises(StoreError, match="a history of version 9, this is version 3; use"):
        SqliteDatabase(tmp_path / "history.db")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"missing/history\.db: the history cannot be opened; its folder must exist"):
        SqliteDatabase(tmp_path / "missing" / "history.db")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, and longer than the header of one would be " * 20)
    with pytest.raises(StoreError, match="not a history of stream_guard; choose another path"):
        SqliteDatabase(tmp_path / "text")


def test_an_address_of_another_sort_is_refused() -> None:
    with pytest.raises(StoreError, match=r"cannot be kept at mysql://\.\.\.; give a file's path or postgresql://"):
        open_database("mysql://me:secret@host/name")


def test_what_a_person_answers_and_its_use_are_on_the_disk_before_they_are_told(tmp_path: Path) -> None:
    said: list[str] = []
    with World(lambda: _overheard(tmp_path / "history.db", said)) as world:
        gate = world.gate()

        def pause(amount: int) -> str:
            return review_of(gate.check(call("pay", {"amount": amount}, call_id=f"c{amount}")))

        steps: dict[str, Callable[[], object]] = {
            "a question": lambda: gate.check(call("pay", {"amount": 1}, call_id="c1")),
            "an approval": lambda: gate.reviews.approve(pause(1), by="ada"),
            "its use": lambda: gate.check(call("pay", {"amount": 1}, call_id="c1")),
            "a rejection": lambda: gate.reviews.reject(pause(2), by="ada"),
            "a refusal by it": lambda: gate.check(call("pay", {"amount": 2}, call_id="c2")),
            "a bypass": lambda: gate.reviews.bypass(pause(3), Grant(by="ada", note="a batch", seconds=60)),
            "an ended session": lambda: gate.check(call("leak", session="t")),
        }
        for name, step in steps.items():
            said.clear()
            step()
            assert _last_commit(said) == "FULL", name
        said.clear()
        gate.check(call("drop"))
        assert _last_commit(said) == "NORMAL", "a plain refusal would be given again"


def _overheard(path: Path, said: list[str]) -> SqliteDatabase:
    database = SqliteDatabase(path)
    assert database._db is not None  # what SQLite is told is seen nowhere else
    database._db.set_trace_callback(said.append)
    return database


def _last_commit(said: list[str]) -> str:
    """Return how the last transaction was committed."""
    last = len(said) - said[::-1].index("COMMIT")
    return next(sql.rpartition(" ")[2] for sql in reversed(said[:last]) if sql.startswith("PRAGMA synchronous"))
