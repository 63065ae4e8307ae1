"""The claims about what a history keeps and for how long; each is run on SQLite and on Postgres."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.errors import StoreError
from stream_guard.guard.gate import Gate
from stream_guard.history import (
    alert_rows,
    audit,
    bypasses,
    chain,
    incidents,
    inquiries,
    policies,
    retention,
    tallies,
    verdicts,
)
from stream_guard.history.inquiries import AskedInquiry
from stream_guard.history.kept_events import EventKeeper
from stream_guard.history.retention import prune, would_prune
from stream_guard.judge.model import Action
from stream_guard.serve.acs import AcsSessions
from stream_guard.settings import HistorySettings, PageSettings, ReviewSettings
from tests.history.claims import World, call, review_of

DAY = 86_400.0
KEEP = HistorySettings(keep=30 * DAY)


def ago(world: World, days: float) -> None:
    """Let everything from now on happen so long ago, by the clock of the database."""
    world.now = world.database.time() - days * DAY


def counted(world: World, table: str) -> int:
    return int(world.database.read(f"SELECT count(*) FROM {table}")[0][0])


def solve_all(world: World) -> None:
    for one in incidents.listing(world.database, "unresolved"):
        incidents.solve(world.database, one.id, by="ada", note="", time=world.now)


def everything(world: World) -> Gate:
    """Fill every table that is pruned, long ago, and return the gate."""
    ago(world, 100)
    gate = world.gate()
    policies.note(world.database, "v0", {"rules": []}, world.now)
    policies.note(world.database, "v1", {"rules": [{}]}, world.now)
    for number in range(3):
        gate.check(call("drop", {"n": number}, call_id=f"d{number}", session=f"s{number}"))
    gate.reviews.reject(review_of(gate.check(call("pay", call_id="p1"))), by="ada")
    gate.check(call("leak", session="leaking"))
    world.gate().observe(
        sg.Turn(session_id="s", response={"content": [{"type": "tool_use", "name": "odd", "id": "1"}]})
    )
    alert = alert_rows.page(world.database, alert_rows.AlertFilter()).alerts[-1].alert
    verdicts.give(world.database, alert.alert_id, "right", by="ada", time=world.now)
    solve_all(world)
    asked = AskedInquiry(id="q1", rule_id="r", model="m", words="w", excerpt=(), opened=world.now, state="answered")
    with world.database.transaction() as statements:
        inquiries.put(statements, asked, 0.0)
        statements.run("INSERT INTO sg_waiting VALUES ('a', 'gate', 'q1', 'told', 0, '')")
        statements.run("INSERT INTO sg_budgets VALUES ('all', '', '2001-02-03', 1, 1)")
        statements.run("INSERT INTO sg_tallies VALUES ('tool', 'x', '', ?, 1)", tallies.bucket_of(None, world.now))
        statements.run("UPDATE sg_ended SET noted = ?", world.now)
    AcsSessions(world.database).negotiate("acs", ("steps",), (), world.now)
    with world.database.transaction() as statements:
        statements.run("UPDATE sg_acs_sessions SET noted = ?", world.now)
    keeper = EventKeeper(world.database, PageSettings(), lambda: world.now)
    keeper.keep([sg.UserMessage(session_id=f"kept-{number}", text="hello") for number in range(3)])
    keeper.flush()
    keeper.close()
    return gate


def what_is_settled_and_old_goes_and_the_rest_stays(world: World) -> None:
    gate = everything(world)
    head = audit.verify(world.database).head
    ago(world, 1)
    young = call("drop", {"young": True}, call_id="y1", event_id="y1", session="s1")
    assert gate.check(young).action is Action.BLOCK
    gone = prune(world.database, KEEP)
    assert gone["sg_audit"] == head.number
    checked = audit.verify(world.database)
    assert (checked.problems, checked.pruned) == ((), head)
    left = ("sg_reviews", "sg_rulings", "sg_ended", "sg_verdicts", "sg_inquiries", "sg_waiting", "sg_budgets")
    others = ("sg_acs_sessions", "sg_sessions", "sg_events", "sg_policies")
    assert [counted(world, table) for table in left] == [0, 1, 0, 0, 0, 0, 0]
    assert [counted(world, table) for table in others] == [0, 0, 0, 1]
    [kept] = incidents.listing(world.database)  # the young one found it again
    assert (kept.session_id, kept.status) == ("s1", "unresolved")
    assert gate.check(young).action is Action.BLOCK
    assert counted(world, "sg_alerts") == sum(
        entry.what == "finding" for entry in incidents.timeline(world.database, kept.id)
    )


def dry_run_says_what_goes_and_writes_nothing(world: World) -> None:
    everything(world)
    ago(world, 1)
    world.gate().check(call("drop", {"young": True}, session="young"))
    before = {table: counted(world, table) for table in ("sg_audit", "sg_alerts", "sg_rulings", "sg_sessions")}
    head = audit.verify(world.database).head
    said = would_prune(world.database, KEEP)
    assert audit.verify(world.database).head == head
    assert {table: counted(world, table) for table in before} == before
    assert said == prune(world.database, KEEP)
    assert said["sg_audit"] > 0
    assert not would_prune(world.database, KEEP)
    assert not prune(world.database, KEEP)


def nothing_goes_where_everything_is_kept(world: World) -> None:
    everything(world)
    with world.database.transaction() as statements:
        statements.run("DELETE FROM sg_tallies")  # for charts of a month, whatever is kept
    ago(world, 0)
    assert not prune(world.database, HistorySettings(keep=None))


def attempt_that_waits_for_a_person_is_not_forgotten(world: World) -> None:
    world.rules = ReviewSettings(timeout=1000 * DAY)
    ago(world, 100)
    gate = world.gate()
    gate.check(call("drop", call_id="d1"))
    solve_all(world)
    asked = call("pay", {"amount": 20}, call_id="c1", event_id="e1")
    review = review_of(gate.check(asked))
    ago(world, 0)
    prune(world.database, KEEP)
    assert gate.check(asked).action is Action.PAUSE, "its answer is kept with it"
    assert review_of(gate.check(asked)) == review
    assert audit.verify(world.database).problems == ()
    gate.reviews.approve(review, by="ada")
    prune(world.database, KEEP)
    assert gate.check(asked).action is Action.ALLOW
    assert gate.check(asked).action is Action.ALLOW, "asked again at once"
    prune(world.database, KEEP)
    assert audit.verify(world.database).problems == ()
    assert gate.reviews.get(review) is not None, "its last record is young"


def incident_that_nobody_solved_stays_with_its_alerts_and_its_question(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    for number in range(3):
        block = {"type": "tool_use", "name": "odd", "id": str(number), "input": {}}
        gate.observe(sg.Turn(session_id="s", response={"content": [block]}))
    [asked] = gate.reviews.listing("open")
    ago(world, 0)
    assert prune(world.database, KEEP)["sg_audit"] > 0
    assert audit.verify(world.database).problems == ()
    [kept] = incidents.listing(world.database, "unresolved")
    told = incidents.timeline(world.database, kept.id)
    assert [entry.what for entry in told] == ["finding"] * 3
    assert all(alert_rows.get(world.database, entry.alert_id) is not None for entry in told)
    assert gate.reviews.acknowledge(asked.id, by="ada").status == "acknowledged"
    assert incidents.listing(world.database, "solved") != []
    assert audit.verify(world.database).problems == ()


def incident_that_was_found_again_stays(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    gate.check(call("drop", event_id="e1"))
    solve_all(world)
    ago(world, 50)
    gate.check(call("drop", event_id="e2"))
    ago(world, 0)
    prune(world.database, KEEP)
    [kept] = incidents.listing(world.database)
    assert [entry.what for entry in incidents.timeline(world.database, kept.id)] == [
        "finding",
        "solved",
        "reopened",
        "finding",
    ]


def bypass_counts_until_it_ends(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    asked = review_of(gate.check(call("pay", {"amount": 1}, call_id="c1")))
    grant = bypasses.Grant(by="ada", note="a quiet week", seconds=101 * DAY)
    gate.reviews.bypass(asked, grant)
    gate.check(call("pay", {"amount": 1}, call_id="c1"))
    world.now += 2 * world.rules.timeout
    gate.reviews.listing()
    ago(world, 0)
    prune(world.database, KEEP)
    assert audit.verify(world.database).problems == ()
    assert gate.check(call("pay", {"amount": 2}, call_id="c2")).action is Action.ALLOW
    assert counted(world, "sg_bypasses") == 1


def ended_session_stays_refused_as_long_as_it_tries(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    assert gate.check(call("leak", session="tries")).action is Action.TERMINATE_SESSION
    assert gate.check(call("leak", session="gave up")).action is Action.TERMINATE_SESSION
    with world.database.transaction() as statements:
        statements.run("UPDATE sg_ended SET noted = ?", world.now)
    ago(world, 20)
    later = world.gate(version="v2", database=world.connect())
    assert later.check(call("read", session="tries")).action is Action.TERMINATE_SESSION
    ago(world, 0)
    prune(world.database, KEEP)
    assert audit.verify(world.database).problems == ()
    last = world.gate(version="v3", database=world.connect())
    refused = last.check(call("read", session="tries"))
    assert (refused.action, refused.reason) == (Action.TERMINATE_SESSION, "the session was ended: leak is watched")
    assert last.check(call("read", session="gave up")).action is Action.ALLOW


def number_of_records_has_a_limit_that_spares_what_is_young_and_what_counts(world: World) -> None:
    ago(world, 2)
    gate = world.gate()
    gate.check(call("leak", session="ended"))
    for number in range(20):
        gate.check(call("drop", {"n": number}, call_id=f"d{number}"))
    ago(world, 0)
    gate.check(call("drop", {"n": "young"}, call_id="young"))
    before = audit.verify(world.database).head.number
    prune(world.database, HistorySettings(keep=None, max_records=5))
    checked = audit.verify(world.database)
    assert checked.problems == ()
    assert checked.pruned.number == before - 5
    prune(world.database, HistorySettings(keep=None, max_records=1))
    assert audit.verify(world.database).pruned.number == before - 1, "no record of the last hour"
    assert world.gate(version="v2").check(call("read", session="ended")).action is Action.TERMINATE_SESSION
    assert {one.status for one in incidents.listing(world.database)} == {"unresolved"}


def stamps_of_a_clock_that_was_wrong_neither_keep_nor_take_anything(world: World) -> None:
    gate = world.gate()
    for days, session in ((100, "old"), (-5000, "future"), (99, "old, too"), (1, "young"), (99, "clock set back")):
        ago(world, days)
        gate.check(call("drop", session=session))
    ago(world, 0)
    prune(world.database, KEEP)
    left = [record["session_id"] for record in chain.records(world.database) if record["what"] == "decision"]
    assert left == ["young", "clock set back"]
    assert audit.verify(world.database).problems == ()


def record_of_the_future_alone_is_no_old_one(world: World) -> None:
    ago(world, -1)
    world.gate().check(call("drop"))
    assert not prune(world.database, HistorySettings(keep=3600, max_records=1))


def no_of_a_person_is_not_pushed_out(world: World) -> None:
    ago(world, 2)
    gate = world.gate()
    asked = call("pay", {"amount": 20})
    review = review_of(gate.check(asked))
    gate.reviews.reject(review, by="bob", note="too much")
    for number in range(20):
        gate.check(call("drop", {"n": number}, event_id=f"d{number}"))
    ago(world, 0)
    for _ in range(2):
        prune(world.database, HistorySettings(keep=30 * DAY, max_records=3))
        assert audit.verify(world.database).problems == ()
        refused = world.gate().check(asked)
        assert (refused.action, refused.reason) == (Action.BLOCK, "rejected by bob: too much")


def review_that_nobody_looked_at_in_its_time_holds_nothing_up(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    asked = call("pay", {"amount": 20}, call_id="c1", event_id="e1")
    first = review_of(gate.check(asked))
    for number in range(5):
        gate.check(call("drop", {"n": number}, event_id=f"d{number}"))
    ago(world, 0)
    assert prune(world.database, KEEP)["sg_rulings"] == 6
    assert audit.verify(world.database).problems == ()
    again = gate.check(asked)
    assert (again.action, review_of(again) == first) == (Action.PAUSE, False)
    known = gate.reviews.get(first)
    assert (known and known.status) == "expired"
    assert audit.verify(world.database).problems == ()


def heads_from_before_are_told_from_heads_that_still_show_something(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    early = audit.verify(world.database).head
    gate.check(call("drop", {"n": 1}))
    solve_all(world)
    middle = audit.verify(world.database).head
    gate.check(call("drop", {"n": 2}, session="t"))
    last_of_old = audit.verify(world.database).head
    ago(world, 1)
    gate.check(call("drop", {"n": 3}, session="u"))
    young = audit.verify(world.database).head
    prune(world.database, KEEP)
    assert [audit.verify(world.database, head).problems for head in (early, last_of_old, young)] == [(), (), ()]
    [pruned] = audit.verify(world.database, middle).problems
    assert "it was pruned" in pruned
    forged = chain.Head(young.number, "0" * 64)
    assert "not the one that was the head then" in audit.verify(world.database, forged).problems[0]
    assert audit.verify(world.database, chain.Head(last_of_old.number, "0" * 64)).problems


class _UndoError(Exception):
    """Takes a change back."""


def what_is_not_as_it_was_written_is_not_pruned(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    gate.reviews.reject(review_of(gate.check(call("pay", call_id="c1"))), by="ada")
    gate.check(call("drop"))
    solve_all(world)
    ago(world, 0)
    changes = {
        "UPDATE sg_audit SET body = replace(body, 'drop', 'read') WHERE number = 6": "record 6 was changed",
        "DELETE FROM sg_audit WHERE number = 2": "record 3 was changed",
        "UPDATE sg_reviews SET status = 'open'": "the row of review",
        "UPDATE sg_reviews SET body = replace(body, 'rejected', 'approved')": "the row of review",
        "DELETE FROM sg_reviews": "the row of review",
    }
    before, cut = counted(world, "sg_audit"), retention.cut_of(world.database, KEEP)
    for sql, wanted in changes.items():
        with suppress(_UndoError), world.database.transaction() as statements:
            statements.run(sql)
            with pytest.raises(StoreError, match=wanted):
                retention._prune_audit(statements, cut)
            raise _UndoError
    assert counted(world, "sg_audit") == before
    prune(world.database, KEEP)
    assert audit.verify(world.database).problems == ()


def records_that_were_taken_away_are_found_also_behind_those_that_were_pruned(world: World) -> None:
    ago(world, 100)
    for number in range(5):
        world.gate().check(call("drop", {"n": number}, session=f"s{number}"))
    ago(world, 1)
    for number in range(5):
        world.gate().check(call("drop", {"n": number}, session=f"t{number}"))
    prune(world.database, KEEP)
    assert audit.verify(world.database).problems == ()
    first = audit.verify(world.database).pruned.number + 1
    for sql in (
        f"DELETE FROM sg_audit WHERE number = {first}",
        f"DELETE FROM sg_audit WHERE number <= {first + 1}",
        f"DELETE FROM sg_audit WHERE number = {first + 2}",
        "DELETE FROM sg_audit WHERE body LIKE '%history_pruned%'",
    ):
        with suppress(_UndoError), world.database.transaction() as statements:
            statements.run(sql)
            assert any("is missing" in problem for problem in audit.verify(world.database).problems), sql
            raise _UndoError


def incident_with_many_findings_keeps_the_first_and_the_latest(world: World) -> None:
    ago(world, 1)
    gate = world.gate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidents, "MOST_FINDINGS", 5)
        for number in range(20):
            gate.check(call("drop", {"n": number}, event_id=f"e{number}"))
    [one] = incidents.listing(world.database)
    told = incidents.timeline(world.database, one.id)
    assert [entry.number for entry in told] == [1, 16, 17, 18, 19, 20]
    assert (one.findings, counted(world, "sg_alerts")) == (20, 6)
    assert alert_rows.newest(world.database) == 20


def no_number_of_an_alert_is_given_twice(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    for number in range(3):
        gate.check(call("drop", {"n": number}, session=f"s{number}"))
    solve_all(world)
    ago(world, 0)
    prune(world.database, KEEP)
    assert (counted(world, "sg_alerts"), alert_rows.newest(world.database)) == (0, 3)
    gate.check(call("drop", {"n": 9}))
    assert [one.number for one in alert_rows.since(world.database, 3)] == [4]


def large_incident_goes_in_parts(world: World) -> None:
    ago(world, 100)
    gate = world.gate()
    for number in range(30):
        gate.check(call("drop", {"n": number}, event_id=f"e{number}"))
    solve_all(world)
    ago(world, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "_ROWS", 7)
        patch.setattr(retention, "_RECORDS", 4)
        patch.setattr(retention, "_PAUSE", 0.0)
        said = would_prune(world.database, KEEP)
        assert said == prune(world.database, KEEP)
    assert (said["sg_timeline"], counted(world, "sg_alerts"), counted(world, "sg_timeline")) == (31, 0, 0)
    assert audit.verify(world.database).problems == ()


def others_write_and_verify_while_it_is_pruned(world: World) -> None:
    ago(world, 100)
    old = world.gate()
    for number in range(60):
        old.check(call("drop", {"n": number}, session=f"old{number}"))
    solve_all(world)
    ago(world, 0)
    wrong: list[Any] = []

    def write(name: int) -> None:
        database = world.connect()
        gate = world.gate(database=database)
        for number in range(20):
            attempt = call("drop", {"n": number}, session=f"new{name}", call_id=f"c{number}")
            if [gate.check(attempt).action, gate.check(attempt).action] != [Action.BLOCK] * 2:
                wrong.append(attempt)

    def verify() -> None:
        database = world.connect()
        for _ in range(10):
            wrong.extend(audit.verify(database).problems)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "_RECORDS", 3)
        patch.setattr(retention, "_PAUSE", 0.0)
        patch.setattr(chain, "_PAGE", 7)
        threads = [Thread(target=write, args=(name,)) for name in range(2)] + [Thread(target=verify)]
        threads += [Thread(target=prune, args=(world.connect(), KEEP)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert audit.verify(world.database).problems == ()
    assert {one.session_id for one in incidents.listing(world.database)} == {"new0", "new1"}
    assert (counted(world, "sg_rulings"), counted(world, "sg_alerts")) == (40, 40)


KILLED = """
import os, signal, sys
from contextlib import contextmanager
from stream_guard.history import retention
from stream_guard.history.database import open_database
from stream_guard.settings import HistorySettings
database, left = open_database(sys.argv[1]), int(sys.argv[2])
retention._RECORDS, retention._ROWS, retention._PAUSE = 3, 4, 0.0
begin = database.transaction

class Counting:
    def __init__(self, statements):
        self.time, self.key, self._run = statements.time, statements.key, statements.run
    def run(self, sql, *values):
        global left
        found = self._run(sql, *values)
        left -= not sql.startswith("SELECT")
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

@contextmanager
def transaction():
    with begin() as statements:
        yield Counting(statements)

database.transaction = transaction
retention.prune(database, HistorySettings(keep=2_592_000.0))
"""


def kill_amid_pruning_leaves_a_history_in_order(world: World, address: str) -> None:
    everything(world)
    ago(world, 1)
    world.gate().check(call("drop", {"young": True}, session="young"))
    codes = []
    for writes in (1, 2, 3, 5, 8, 13, 40, 10_000):
        done = subprocess.run([sys.executable, "-c", KILLED, address, str(writes)], check=False, timeout=120)
        codes.append(done.returncode)
        assert audit.verify(world.database).problems == ()
        incident = {one.id for one in incidents.listing(world.database)}
        timelines = {name for (name,) in world.database.read("SELECT DISTINCT incident FROM sg_timeline")}
        assert timelines <= incident
    assert codes == [-9] * 7 + [0]
    assert not would_prune(world.database, KEEP)
    assert [one.session_id for one in incidents.listing(world.database)] == ["young"]


RETENTION_CLAIMS: tuple[Callable[[World], None], ...] = (
    what_is_settled_and_old_goes_and_the_rest_stays,
    dry_run_says_what_goes_and_writes_nothing,
    nothing_goes_where_everything_is_kept,
    attempt_that_waits_for_a_person_is_not_forgotten,
    incident_that_nobody_solved_stays_with_its_alerts_and_its_question,
    incident_that_was_found_again_stays,
    bypass_counts_until_it_ends,
    ended_session_stays_refused_as_long_as_it_tries,
    number_of_records_has_a_limit_that_spares_what_is_young_and_what_counts,
    no_of_a_person_is_not_pushed_out,
    review_that_nobody_looked_at_in_its_time_holds_nothing_up,
    stamps_of_a_clock_that_was_wrong_neither_keep_nor_take_anything,
    record_of_the_future_alone_is_no_old_one,
    heads_from_before_are_told_from_heads_that_still_show_something,
    what_is_not_as_it_was_written_is_not_pruned,
    records_that_were_taken_away_are_found_also_behind_those_that_were_pruned,
    incident_with_many_findings_keeps_the_first_and_the_latest,
    no_number_of_an_alert_is_given_twice,
    large_incident_goes_in_parts,
    others_write_and_verify_while_it_is_pruned,
)
