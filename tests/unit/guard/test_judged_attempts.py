"""A rule that asks a judge holds an attempt until the answer is there, and then decides as the stream does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.asking.desk import AnswerRecord, QuestionDesk
from stream_guard.guard.gate import Gate, Ruling
from stream_guard.guard.inline import Guard
from stream_guard.history import inquiries
from stream_guard.history.database import Database, open_database
from stream_guard.judge.model import Action, Alert
from stream_guard.judge.ports import Answer
from stream_guard.judge.spec import Policy
from stream_guard.ports import Question
from stream_guard.registry import build_registry
from stream_guard.settings import JudgeSettings
from stream_guard.testing import events, rule_spec

KIND = build_registry().kinds["must_satisfy_judge"]


class Bench:
    """A gate with a desk whose judge answers when the test says so."""

    def __init__(self, database: Database, then: Action | None, **engine: Any) -> None:
        rule = rule_spec(
            KIND, {"rule": "Refunds need a reason.", "tool": "refund"}, rule_id="kind", then=then, **engine
        )
        self.policy = Policy(rules=(rule,), version="v1")
        self.now = 1000.0
        self.violated: bool | None = None
        self.asked: list[Question] = []
        settings = JudgeSettings(url="http://judge", model="m")
        self.desk = QuestionDesk(database, settings, self._judge, owner="gate", clock=lambda: self.now)
        guard = Guard(self.policy, answers=self.desk, clock=lambda: self.now)
        guard.ask = lambda asked: self.desk.put(asked, "v1")
        self.alerts: list[Alert] = []
        self.gate = Gate(self.policy, database, guard=guard, outgoing=self.alerts.extend, clock=lambda: self.now)

    def _judge(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(violated=self.violated, confidence=0.9, explanation="no reason is given", is_counted=True)

    def answer(self, *, violated: bool | None) -> None:
        """Let the judge answer what waits, and the gate follow up."""
        self.violated = violated
        while (claim := self.desk._claim()) is not None:
            self.desk._settle(claim, self.desk._ask(claim.inquiry))
        settled = self.desk.take()
        self.gate.tell([(one.finding, one.answer) for one in settled])
        self.desk.told(settled)

    def check(self, number: int = 1, amount: int = 5) -> Action:
        return self.ruling(number, amount).action

    def ruling(self, number: int = 1, amount: int = 5) -> Ruling:
        call = sg.ToolCall(
            session_id="s", event_id=f"e{number}", call_id=f"c{number}", tool="refund", args={"amount": amount}
        )
        return self.gate.check(call)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(str(tmp_path / "history.db"))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("then", "before", "after"),
    [
        (Action.PAUSE, Action.PAUSE, Action.PAUSE),
        (Action.BLOCK, Action.BLOCK, Action.BLOCK),
        (Action.TERMINATE_SESSION, Action.BLOCK, Action.TERMINATE_SESSION),
    ],
)
def test_an_attempt_is_held_until_the_judge_has_answered(
    database: Database, then: Action, before: Action, after: Action
) -> None:
    for violated, expected in ((False, Action.ALLOW), (True, after)):
        bench = Bench(database, then)
        amount = 7 if violated else 5
        ruling = bench.ruling(1, amount)
        assert ruling.action is before
        assert ruling.rules.unevaluable == ("kind",)
        assert bench.check(1, amount) is before  # asked again, and no answer has come
        bench.answer(violated=violated)
        assert bench.check(1, amount) is expected


def test_a_call_that_the_judge_lets_pass_leaves_no_review_open(database: Database) -> None:
    bench = Bench(database, Action.PAUSE)
    assert bench.check() is Action.PAUSE
    [review] = bench.gate.reviews.listing("open")
    bench.answer(violated=False)
    assert bench.check() is Action.ALLOW
    assert bench.gate.reviews.listing("open") == []
    found = bench.gate.reviews.get(review.id)
    assert found is not None
    assert found.status == "void"


def test_a_person_may_answer_before_the_judge(database: Database) -> None:
    bench = Bench(database, Action.PAUSE)
    assert bench.check() is Action.PAUSE
    [review] = bench.gate.reviews.listing("open")
    bench.gate.reviews.approve(review.id, by="ann")
    assert bench.check() is Action.ALLOW


def test_a_new_call_with_the_same_arguments_is_the_same_question(database: Database) -> None:
    bench = Bench(database, Action.BLOCK)
    assert bench.check(1) is Action.BLOCK
    bench.answer(violated=False)
    assert bench.check(2) is Action.ALLOW
    assert len(bench.asked) == 1


def test_a_rule_that_only_alerts_holds_nothing_up_and_alerts_when_the_answer_comes(database: Database) -> None:
    bench = Bench(database, None)
    assert bench.check() is Action.ALLOW
    assert bench.alerts == []
    bench.answer(violated=True)
    [alert] = bench.alerts
    said = alert.evidence["judge"]
    assert (said["says"], said["confidence"], said["why"]) == ("broken", 0.9, "no reason is given")
    assert inquiries.of_alert(database, alert) is not None


def test_a_rule_that_allows_what_it_cannot_judge_lets_the_call_pass(database: Database) -> None:
    bench = Bench(database, Action.BLOCK, on_unevaluable="allow")
    assert bench.check() is Action.ALLOW
    bench.answer(violated=True)
    assert [alert.rule_id for alert in bench.alerts] == ["kind"]


def test_a_judge_that_cannot_tell_lets_nothing_pass(database: Database) -> None:
    bench = Bench(database, Action.BLOCK)
    assert bench.check() is Action.BLOCK
    bench.answer(violated=None)
    assert bench.check() is Action.BLOCK


def test_a_cooldown_keeps_alerts_back_and_not_the_question(database: Database) -> None:
    bench = Bench(database, Action.BLOCK, cooldown=3600.0)
    assert bench.check(1, 5) is Action.BLOCK
    assert bench.check(2, 6) is Action.BLOCK
    bench.answer(violated=True)
    assert len(bench.asked) == 2
    assert len(bench.alerts) == 1
    assert bench.check(2, 6) is Action.BLOCK


@pytest.mark.parametrize("violated", [True, False])
def test_what_was_decided_inline_is_found_on_the_stream_and_in_batch(database: Database, violated: bool) -> None:
    bench = Bench(database, None)
    bench.check()
    bench.answer(violated=violated)
    record = AnswerRecord(database, "m")
    call = sg.ToolCall(session_id="s", event_id="e1", call_id="c1", tool="refund", args={"amount": 5})
    batch = [sg.make_alert(one, "v1") for one in sg.evaluate([call], bench.policy, answers=record)]
    stream = Guard(bench.policy, answers=record, clock=sg.ReplayClock()).check(call).findings
    assert [alert.alert_id for alert in batch] == [alert.alert_id for alert in bench.alerts]
    assert [alert.evidence for alert in batch] == [alert.evidence for alert in bench.alerts]
    assert [finding.alert_id for finding in stream] == [alert.alert_id for alert in batch]
    assert len(batch) == violated


def test_an_answer_changes_no_state(database: Database) -> None:
    """Whether the judge has answered or will: the next question is the same."""
    bench = Bench(database, None)
    trace = events([{"call": "refund", "args": {"amount": number}, "id": f"c{number}"} for number in range(3)])
    asked = sg.evaluate(trace, bench.policy, answers=bench.desk)
    digests = [one.inquiry.digest for one in asked if one.inquiry is not None]
    bench.desk.put(asked[:1], "v1")
    bench.answer(violated=True)
    again = sg.evaluate(trace, bench.policy, answers=bench.desk)
    assert [one.inquiry.digest for one in again if one.inquiry is not None] == digests[1:]
