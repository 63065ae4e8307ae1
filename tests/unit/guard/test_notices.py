"""A call that waits for a person is an alert, and so is every finding of a gate, before its history is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stream_guard.errors import SinkError
from stream_guard.guard.follow_up import REVIEW, settled_in
from stream_guard.guard.gate import Gate
from stream_guard.history import incidents
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import Action, Alert, ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

POLICY = """
rules:
  - {id: ask, kind: no_call, params: {tool: pay}, then: pause, severity: critical}
  - {id: stop, kind: no_call, params: {tool: wipe}, then: block}
  - {id: tell, kind: no_call, params: {tool: look}}
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "history.db")
    yield opened
    opened.close()


def make_gate(database: SqliteDatabase, sent: list[Alert]) -> Gate:
    return Gate(load_policy(POLICY, build_registry(), file="policy.yaml"), database, outgoing=sent.extend)


def call(tool: str, number: int = 1, **args: object) -> ToolCall:
    return ToolCall(
        session_id="s", event_id=f"e{number}", call_id=f"c{number}", tool=tool, args=args, labels={"tenant": "acme"}
    )


def test_a_pending_review_asks_for_a_person_once(database: SqliteDatabase) -> None:
    sent: list[Alert] = []
    gate = make_gate(database, sent)
    ruling = gate.check(call("pay", amount=5))
    assert ruling.review is not None
    gate.check(call("pay", amount=5))
    [notice] = [one for one in sent if one.kind == REVIEW]
    assert notice.alert_id == f"review-{ruling.review.id}"
    assert (notice.rule_id, notice.severity, notice.labels) == ("ask", "critical", {"tenant": "acme"})
    assert "a call of pay waits for a person until 2" in notice.detail


def test_an_answered_review_is_settled_and_so_is_what_it_answers(database: SqliteDatabase) -> None:
    sent: list[Alert] = []
    gate = make_gate(database, sent)
    ruling = gate.check(call("pay"))
    assert ruling.review is not None
    finding = next(one for one in sent if one.kind != REVIEW)
    notice = next(one for one in sent if one.kind == REVIEW)
    settled = settled_in(database)
    assert not settled(sent)
    gate.reviews.reject(ruling.review.id, by="ada")
    assert settled(sent) == {notice.alert_id, finding.alert_id}


@pytest.mark.parametrize("tool", ["pay", "wipe", "look"])
def test_every_alert_of_a_gate_goes_out_before_the_history_says_so(database: SqliteDatabase, tool: str) -> None:
    def refuse(alerts: Sequence[Alert]) -> None:
        raise SinkError("no space", retryable=True)

    sent: list[Alert] = []
    gate = make_gate(database, sent)
    gate.outgoing = refuse
    with pytest.raises(SinkError):
        gate.check(call(tool))
    assert not incidents.listing(database)
    assert not gate.reviews.listing()
    gate.outgoing = sent.extend
    ruling = gate.check(call(tool))
    assert [one.rule_id for one in sent if one.kind != REVIEW] == [{"pay": "ask", "wipe": "stop", "look": "tell"}[tool]]
    assert (ruling.action is Action.ALLOW) == (tool == "look")


def test_secrets_of_a_call_are_not_in_its_notice(database: SqliteDatabase) -> None:
    secret = "AKIA" + "QWERTYUIOPASDFGH"
    sent: list[Alert] = []
    make_gate(database, sent).check(call("pay", key=secret))
    assert sent
    assert secret not in repr(sent)
