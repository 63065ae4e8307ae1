"""The history in a real Postgres server: every claim about histories, and what only a server can do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest

from stream_guard.errors import StoreError
from stream_guard.history import audit, database, incidents
from stream_guard.history.database import open_database
from stream_guard.history.retention import prune, would_prune
from stream_guard.judge.model import Action
from tests.history.claims import CLAIMS, World, call, review_of
from tests.history.page_claims import PAGE_CLAIMS
from tests.history.postgres import Server
from tests.history.retention_claims import (
    KEEP,
    RETENTION_CLAIMS,
    everything,
    kill_amid_pruning_leaves_a_history_in_order,
)
from tests.history.review_claims import REVIEW_CLAIMS

TABLES = ", ".join(re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", " ".join(database.TABLES)))


@pytest.fixture
def world(postgres: Server) -> Iterator[World]:
    opened = open_database(postgres.address)
    with opened.transaction() as statements:
        statements.run(f"DROP TABLE {TABLES}")
    opened.close()
    with World(lambda: open_database(postgres.address)) as world:
        yield world


@pytest.mark.parametrize(
    "claim", [*CLAIMS, *REVIEW_CLAIMS, *PAGE_CLAIMS, *RETENTION_CLAIMS], ids=lambda claim: claim.__name__
)
def test_in_postgres(claim: Callable[[World], None], world: World) -> None:
    claim(world)


def test_a_server_that_went_away_is_an_error_and_then_used_again(postgres: Server, world: World) -> None:
    gate = world.gate()
    gate.check(call("drop", {"n": 1}))
    postgres.stop()
    try:
        with pytest.raises(StoreError, match="see that the server runs") as failure:
            gate.check(call("drop", {"n": 2}, call_id="c1"))
    finally:
        postgres.start()
    assert "a-password" not in str(failure.value)
    assert gate.check(call("drop", {"n": 2}, call_id="c1")).action.word == "block"
    assert audit.verify(world.database).problems == ()


def test_a_kill_amid_pruning_leaves_the_database_in_order(postgres: Server, world: World) -> None:
    kill_amid_pruning_leaves_a_history_in_order(world, postgres.address)


def test_what_is_old_is_so_by_the_clock_of_the_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    everything(world)
    now = time.time()
    for moment, goes in ((0.0, True), (now - 90 * 86_400.0, True), (now + 10_000 * 86_400.0, True)):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        assert bool(would_prune(world.database, KEEP)) is goes
    world.now = now
    prune(world.database, KEEP)
    world.gate().check(call("drop", session="young"))
    for one in incidents.listing(world.database):
        incidents.solve(world.database, one.id, by="ada", note="", time=now)
    assert not prune(world.database, KEEP), "by the clock of this process everything is old"


def test_an_address_that_lets_nobody_in_is_an_error_without_the_password(postgres: Server) -> None:
    with pytest.raises(StoreError, match="password authentication failed") as failure:
        open_database(postgres.address.replace("a-password", "another-password"))
    assert "another-password" not in str(failure.value)


def test_a_history_of_the_version_before_is_brought_up_to_date(postgres: Server, world: World) -> None:
    world.gate().check(call("drop", {"n": 1}))
    before = world.database.read("SELECT attempt, record FROM sg_rulings")
    with world.database.transaction() as statements:
        statements.run("UPDATE sg_history SET version = 2")
        statements.run("ALTER TABLE sg_rulings DROP COLUMN record")
    opened = open_database(postgres.address)
    assert opened.read("SELECT version FROM sg_history") == [(database.VERSION,)]
    assert opened.read("SELECT attempt, record FROM sg_rulings") == before
    assert audit.verify(opened).problems == ()
    opened.close()


def test_an_answer_is_on_the_disk_of_a_server_that_commits_before_its_disk_has_it(
    postgres: Server, world: World
) -> None:
    with world.database.transaction() as statements:
        statements.run("ALTER ROLE guard SET synchronous_commit = off")
    try:
        gate = world.gate(database=world.connect())
        review = review_of(gate.check(call("pay", {"amount": 20}, call_id="c1")))
        assert _is_flushed(world)
        gate.check(call("drop", {"n": 1}))
        gate.reviews.approve(review, by="ada")
        assert _is_flushed(world)
        assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.ALLOW
        assert _is_flushed(world)
    finally:
        with world.database.transaction() as statements:
            statements.run("ALTER ROLE guard RESET synchronous_commit")


def _is_flushed(world: World) -> bool:
    """Whether the disk has all that was written; a server flushes by itself only now and then."""
    [(flushed,)] = world.database.read("SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()")
    return bool(flushed)
