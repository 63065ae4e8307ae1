"""The claims about reviews, audit, incidents and the gate; each is run on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Self

import msgspec
import pytest

import stream_guard as sg
from stream_guard.guard.gate import PROBE, Gate, Ruling
from stream_guard.guard.reviews import Reviews
from stream_guard.history import audit, chain, incidents
from stream_guard.history.database import Database
from stream_guard.history.records import AnswerRefusedError
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.settings import ReviewSettings
from stream_guard.testing import rule_spec

KINDS = build_registry().kinds
WATCHED = {"pay": Action.PAUSE, "drop": Action.BLOCK, "leak": Action.TERMINATE_SESSION, "odd": None}


@dataclass
class World:
    """One history, a clock that the test moves, and gates that come and go."""

    open: Callable[[], Database]
    now: float = 1000.0
    rules: ReviewSettings = field(default_factory=ReviewSettings)
    emitted: list[sg.Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._opened: list[Database] = []
        self.database = self.connect()

    def connect(self) -> Database:
        """Return one more connection, as another process would have it."""
        self._opened.append(self.open())
        return self._opened[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for database in self._opened:
            database.close()

    def gate(self, version: str = "v1", database: Database | None = None) -> Gate:
        rules = tuple(
            rule_spec(KINDS["no_call"], {"tool": tool}, rule_id=tool, then=then, reason=f"{tool} is watched")
            for tool, then in WATCHED.items()
        )
        database = database or self.database
        return Gate(
            Policy(rules=rules, version=version),
            database,
            reviews=Reviews(database, self.rules, lambda: self.now),
            clock=lambda: self.now,
            emit=self.emitted.append,
        )


def call(tool: str, args: Any = None, *, session: str = "s", call_id: str = "", event_id: str = "") -> sg.ToolCall:
    args = {} if args is None else args
    return sg.ToolCall(session_id=session, tool=tool, args=args, call_id=call_id, event_id=event_id)


def review_of(ruling: Ruling) -> str:
    assert ruling.review is not None, ruling
    return ruling.review.id


def approval_lets_the_same_attempt_through_once(world: World) -> None:
    gate = world.gate()
    paused = gate.check(call("pay", {"amount": 20}))
    assert (paused.action, paused.review and paused.review.status) == (Action.PAUSE, "open")
    assert gate.check(call("pay", {"amount": 20})).review == paused.review
    gate.reviews.approve(review_of(paused), by="ada", note="known customer")
    allowed = gate.check(call("pay", {"amount": 20.0}))
    assert (allowed.action, allowed.reason) == (Action.ALLOW, "approved by ada: known customer")
    again = gate.check(call("pay", {"amount": 20}))
    assert again.action is Action.PAUSE
    assert review_of(again) != review_of(paused)


def approval_does_not_cover(world: World, **other: Any) -> None:
    gate = world.gate()
    gate.reviews.approve(review_of(gate.check(call("pay", {"amount": 20}))), by="ada")
    attempt = call("pay", other.get("args", {"amount": 20}), session=other.get("session", "s"))
    assert world.gate(version=other.get("version", "v1")).check(attempt).action is Action.PAUSE


def approval_does_not_cover_other_arguments(world: World) -> None:
    approval_does_not_cover(world, args={"amount": 21})


def approval_does_not_cover_an_argument_of_another_type(world: World) -> None:
    approval_does_not_cover(world, args={"amount": "20"})


def approval_does_not_cover_another_session(world: World) -> None:
    approval_does_not_cover(world, session="t")


def approval_does_not_cover_another_policy(world: World) -> None:
    approval_does_not_cover(world, version="v2")


def changed_arguments_of_the_same_call_void_its_approval(world: World) -> None:
    gate = world.gate()
    first = review_of(gate.check(call("pay", {"amount": 20}, call_id="c1")))
    gate.reviews.approve(first, by="ada")
    assert gate.check(call("pay", {"amount": 9000}, call_id="c1")).action is Action.PAUSE
    voided = gate.reviews.get(first)
    assert voided is not None
    assert voided.status == "void"
    assert gate.check(call("pay", {"amount": 20}, call_id="c2")).action is Action.PAUSE


def approving_what_was_not_shown_is_refused(world: World) -> None:
    gate = world.gate()
    review = review_of(gate.check(call("pay", {"amount": 20})))
    with pytest.raises(AnswerRefusedError, match="about other arguments"):
        gate.reviews.approve(review, by="ada", arguments_digest="0" * 64)
    still = gate.reviews.get(review)
    assert still is not None
    assert still.status == "open"


def rejected_attempt_stays_refused_and_asks_nobody_again(world: World) -> None:
    gate = world.gate()
    review = review_of(gate.check(call("pay", {"amount": 20})))
    gate.reviews.reject(review, by="bob", note="too much")
    for _ in range(2):
        refused = gate.check(call("pay", {"amount": 20}))
        assert (refused.action, refused.reason) == (Action.BLOCK, "rejected by bob: too much")
    with pytest.raises(AnswerRefusedError, match="rejected already, by bob"):
        gate.reviews.approve(review, by="ada")


def unanswered_review_is_rejected_by_the_clock(world: World) -> None:
    gate = world.gate()
    paused = gate.check(call("pay", {"amount": 20}, call_id="c1"))
    world.now += world.rules.timeout
    with pytest.raises(AnswerRefusedError, match="expired already, by timeout"):
        gate.reviews.approve(review_of(paused), by="ada")
    again = gate.check(call("pay", {"amount": 20}, call_id="c1"))
    assert again.action is Action.PAUSE
    assert review_of(again) != review_of(paused)


def unanswered_review_is_approved_where_the_settings_say_so(world: World) -> None:
    world.rules = ReviewSettings(timeout=60, on_timeout="approve")
    gate = world.gate()
    gate.check(call("pay", {"amount": 20}, call_id="c1"))
    world.now += 60
    ruling = gate.check(call("pay", {"amount": 20}, call_id="c1"))
    assert (ruling.action, ruling.reason) == (Action.ALLOW, "approved by timeout")


def approval_that_nobody_used_runs_out(world: World) -> None:
    gate = world.gate()
    gate.reviews.approve(review_of(gate.check(call("pay"))), by="ada")
    world.now += world.rules.timeout
    assert gate.check(call("pay")).action is Action.PAUSE


def same_call_asked_twice_gets_the_same_answer(world: World) -> None:
    gate = world.gate()
    for tool, action in (("drop", Action.BLOCK), ("pay", Action.PAUSE)):
        rulings = [gate.check(call(tool, {"force": force}, call_id=tool)) for force in (True, True, 1)]
        assert [ruling.action for ruling in rulings] == [action] * 3


def same_call_gets_the_same_answer_from_the_next_server(world: World) -> None:
    assert world.gate().check(call("drop", call_id="c1")).action is Action.BLOCK
    later = world.gate(database=world.connect())
    assert later.check(call("drop", call_id="c1")).action is Action.BLOCK
    assert later.check(call("read", call_id="c2")).action is Action.ALLOW


def call_id_used_again_after_its_result_is_another_attempt(world: World) -> None:
    gate = world.gate()
    asked = call("pay", call_id="c1", event_id="e1")
    gate.reviews.approve(review_of(gate.check(asked)), by="ada")
    assert gate.check(asked).action is Action.ALLOW
    assert gate.check(asked).action is Action.ALLOW
    gate.observe(sg.ToolResult(session_id="s", call_id="c1", status="ok"))
    assert gate.check(asked).action is Action.PAUSE


def ended_session_stays_ended_for_the_next_server(world: World) -> None:
    gate = world.gate()
    assert gate.check(call("read")).action is Action.ALLOW
    assert gate.check(call("leak")).action is Action.TERMINATE_SESSION
    later = world.gate(version="v2", database=world.connect())
    refused = later.check(call("read"))
    assert (refused.action, refused.reason) == (
        Action.TERMINATE_SESSION,
        "the session was ended: leak is watched",
    )
    assert later.check(call("read", session="t")).action is Action.ALLOW


def decision_that_could_not_be_written_down_is_made_again(world: World) -> None:
    gate = world.gate()
    attempt = call("drop", call_id="c1")
    broken, gate.database = gate.database, _Full(gate.database)
    with pytest.raises(OSError, match="full"):
        gate.check(attempt)
    gate.database = broken
    assert gate.check(attempt).action is Action.BLOCK


class _Full:
    """A database that can be read and not written."""

    def __init__(self, database: Database) -> None:
        self.read = database.read
        self.close = database.close
        self.time = database.time
        self.key = database.key

    def transaction(self, *, durable: bool = False) -> Any:
        del durable
        raise OSError("the disk is full")


def findings_of_one_session_and_rule_are_one_incident(world: World) -> None:
    gate = world.gate()
    for session in ("s", "s", "t"):
        gate.check(call("drop", session=session))
    gate.check(call("odd"))
    found = {(one.session_id, one.rule_id): one for one in incidents.listing(world.database)}
    assert {key: one.findings for key, one in found.items()} == {("s", "drop"): 2, ("t", "drop"): 1, ("s", "odd"): 1}
    name = found["s", "drop"].id
    incidents.solve(world.database, name, by="ada", note="test", time=world.now)
    assert [one.status for one in incidents.listing(world.database, "solved")] == ["solved"]
    gate.check(call("drop"))
    told = [entry.what for entry in incidents.timeline(world.database, name)]
    assert told == ["finding", "finding", "solved", "reopened", "finding"]
    assert len(incidents.listing(world.database, "unresolved")) == 3


def finding_after_the_fact_opens_an_alert_that_holds_nothing_back(world: World) -> None:
    gate = world.gate()
    for number in range(3):
        block = {"type": "tool_use", "name": "odd", "id": str(number), "input": {}}
        gate.observe(sg.Turn(session_id="s", response={"content": [block]}))
    [alert] = gate.reviews.listing()
    assert (alert.kind, alert.rule_ids, alert.incident) == (
        "anomaly_alert",
        ("odd",),
        incidents.incident_id("s", "odd"),
    )
    assert gate.check(call("odd", call_id="9")).action is Action.ALLOW
    with pytest.raises(AnswerRefusedError, match="acknowledge it"):
        gate.reviews.approve(alert.id, by="ada")
    assert gate.reviews.acknowledge(alert.id, by="ada").status == "acknowledged"


def every_match_is_audited_and_the_chain_holds(world: World) -> None:
    gate = world.gate()
    for tool in ("read", "drop", "odd", "pay"):
        gate.check(call(tool, {"secret": "hunter2"}))
    kept = [record for record in chain.records(world.database) if record["what"] == "decision"]
    assert [(record["action"], record["rule_ids"]) for record in kept] == [
        ("block", ["drop"]),
        ("allow", ["odd"]),
        ("pause", ["pay"]),
    ]
    assert "hunter2" not in str(list(chain.records(world.database)))
    verdict = audit.verify(world.database)
    assert (verdict.problems, verdict.head) == ((), chain.head_of(_Reading(world.database)))


class _Reading:
    def __init__(self, database: Database) -> None:
        self.run, self.key, self.time = database.read, database.key, database.time


TAMPERED = {
    "UPDATE sg_audit SET body = replace(body, 'drop', 'read') WHERE number = 4": "record 4 was changed",
    "DELETE FROM sg_audit WHERE number = 3": "record 3 is missing",
    "UPDATE sg_audit SET digest = digest || '0' WHERE number = 2": "record 2 was changed",
    "UPDATE sg_audit SET body = 'no record' WHERE number = 2": "record 2 was changed: it is no record any more",
    "DELETE FROM sg_audit WHERE number = (SELECT max(number) FROM sg_audit)": "is missing: the chain ends at",
}


def changed_audit_is_found(world: World) -> None:
    gate = world.gate()
    for number in range(4):
        gate.check(call("drop", {"n": number}))
    head = audit.verify(world.database).head
    assert chain.Head.parse(str(head)) == head
    for sql, wanted in TAMPERED.items():
        problems = _verify_after(world.database, sql, head)
        assert any(wanted in problem for problem in problems), (sql, problems)
    assert audit.verify(world.database, head).problems == ()


class _UndoError(Exception):
    """Takes a change back."""


def _verify_after(database: Database, sql: str, head: chain.Head) -> tuple[str, ...]:
    """Return what is wrong after a change, and take the change back."""
    problems: tuple[str, ...] = ()
    with suppress(_UndoError), database.transaction() as statements:
        statements.run(sql)
        problems = audit.verify(database, head).problems
        raise _UndoError
    return problems


def text_of_an_agent_is_kept_whatever_it_is(world: World) -> None:
    gate = world.gate()
    for text in ("'; DROP TABLE sg_audit; --", "nul \0 inside", "half \ud800 pair", "\u202e%s ? \\"):
        session = f"s {text}"
        paused = gate.check(sg.ToolCall(session_id=session, tool="pay", args={text: [2**80, text]}, call_id=text))
        kept = gate.reviews.get(review_of(paused))
        assert kept is not None
        assert (kept.session_id, kept.call_id) == (session, text)
        gate.reviews.approve(kept.id, by="ada")
        allowed = gate.check(sg.ToolCall(session_id=session, tool="pay", args={text: [2**80, text]}, call_id=text))
        assert allowed.action is Action.ALLOW
    assert audit.verify(world.database).problems == ()


def writers_at_the_same_time_make_one_chain(world: World) -> None:
    def work(number: int) -> None:
        database = world.connect()
        gate = world.gate(database=database)
        for step in range(25):
            gate.check(call("drop", {"n": step}, session=f"s{number}"))
        database.close()

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = audit.verify(world.database)
    assert verdict.problems == ()
    assert verdict.head.number == 4 * 25 + 4  # each decision, and each of the four incidents


def attempt_decision_and_result_are_emitted_in_order(world: World) -> None:
    gate = world.gate()
    gate.check(msgspec.structs.replace(call("drop", call_id="c1"), labels={"env": "prod"}))
    gate.observe(sg.ToolResult(session_id="s", call_id="c1", tool="drop", status="blocked"))
    assert [type(event) for event in world.emitted] == [sg.ToolCall, sg.GateDecision, sg.ToolResult]
    decided = world.emitted[1]
    assert isinstance(decided, sg.GateDecision)
    assert (decided.action, decided.call_id, decided.rule_ids) == ("block", "c1", ("drop",))
    assert decided.labels == {"env": "prod"}, "a rule that asks for labels must see the decision as it saw the attempt"


def probe_is_blocked_and_leaves_no_trace(world: World) -> None:
    gate = world.gate()
    assert gate.check(call(PROBE)).action is Action.BLOCK
    assert (world.emitted, audit.verify(world.database).head.number) == ([], 0)


CLAIMS: tuple[Callable[[World], None], ...] = (
    approval_lets_the_same_attempt_through_once,
    approval_does_not_cover_other_arguments,
    approval_does_not_cover_an_argument_of_another_type,
    approval_does_not_cover_another_session,
    approval_does_not_cover_another_policy,
    changed_arguments_of_the_same_call_void_its_approval,
    approving_what_was_not_shown_is_refused,
    rejected_attempt_stays_refused_and_asks_nobody_again,
    unanswered_review_is_rejected_by_the_clock,
    unanswered_review_is_approved_where_the_settings_say_so,
    approval_that_nobody_used_runs_out,
    same_call_asked_twice_gets_the_same_answer,
    same_call_gets_the_same_answer_from_the_next_server,
    call_id_used_again_after_its_result_is_another_attempt,
    ended_session_stays_ended_for_the_next_server,
    decision_that_could_not_be_written_down_is_made_again,
    findings_of_one_session_and_rule_are_one_incident,
    finding_after_the_fact_opens_an_alert_that_holds_nothing_back,
    every_match_is_audited_and_the_chain_holds,
    changed_audit_is_found,
    text_of_an_agent_is_kept_whatever_it_is,
    writers_at_the_same_time_make_one_chain,
    attempt_decision_and_result_are_emitted_in_order,
    probe_is_blocked_and_leaves_no_trace,
)
