"""One question, one attempt: an answer is given again only while it is fresh and nothing has run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.history.database import open_database
from stream_guard.judge.limits import FRESH
from stream_guard.judge.model import Action, GateDecision, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.storage.stores import MemoryStore

REGISTRY = build_registry()
ALLOW, BLOCK, PAUSE = Action.ALLOW, Action.BLOCK, Action.PAUSE
CAP = {"id": "cap", "kind": "max_calls", "params": {"tool": "mail", "n": 2}, "then": "block"}
BIG = {"id": "big", "kind": "tool_guard", "then": "pause"} | {
    "params": {"when": {"tool_name_in": ["pay"], "arg_gt": {"path": "amount", "value": 5}}}
}


def policy(*rules: dict[str, Any]) -> Policy:
    return load_policy(json.dumps({"rules": rules or [CAP]}), REGISTRY, file="rules.json")


def mail(event_id: str = "", call_id: str = "c1", **more: Any) -> ToolCall:
    return ToolCall(session_id="s", event_id=event_id, call_id=call_id, **{"tool": "mail", "args": {"to": "x"}, **more})


class Asked:
    """A guard on a clock that the test moves."""

    def __init__(self, *rules: dict[str, Any]) -> None:
        self.now, self.store, self.rules = 1_767_600_000.0, MemoryStore(), policy(*rules)
        self.open()

    def open(self) -> None:
        self.guard = Guard(self.rules, store=self.store, clock=lambda: self.now)

    def answer(self, *calls: ToolCall) -> list[Action]:
        return [self.guard.check(call).action for call in calls]


def test_questions_under_one_call_id_with_event_ids_of_their_own_are_attempts_of_their_own() -> None:
    assert Asked().answer(*(mail(f"e{number}") for number in range(4))) == [ALLOW, ALLOW, BLOCK, BLOCK]


def test_questions_without_an_event_id_are_attempts_of_their_own_once_one_was_allowed() -> None:
    assert Asked().answer(*(mail() for _ in range(4))) == [ALLOW, ALLOW, BLOCK, BLOCK]


def test_a_lost_answer_is_given_again() -> None:
    asked = Asked()
    assert asked.answer(mail("e1"), mail("e1"), mail("e1"), mail("e2", "c2"), mail("e2", "c2")) == [ALLOW] * 5
    assert asked.answer(mail("e3", "c3")) == [BLOCK]


def test_a_lost_answer_is_given_again_after_a_restart() -> None:
    asked = Asked()
    assert asked.answer(mail("e1"), mail("e2", "c2")) == [ALLOW, ALLOW]
    asked.guard.commit()
    asked.open()
    assert asked.answer(mail("e1"), mail("e2", "c2"), mail("e3", "c3")) == [ALLOW, ALLOW, BLOCK]


def test_an_answer_that_is_no_longer_fresh_is_not_given_again() -> None:
    asked = Asked()
    assert asked.answer(mail("e1")) == [ALLOW]
    asked.now += FRESH - 0.1
    assert asked.answer(mail("e1")) == [ALLOW]
    asked.now += 0.2
    assert asked.answer(mail("e1"), mail("e1")) == [ALLOW, BLOCK], "freshness counts from the first question"


@pytest.mark.parametrize("event_id", ["e1", ""])
def test_after_a_result_the_same_question_is_another_attempt(event_id: str) -> None:
    asked = Asked()
    for wanted in (ALLOW, ALLOW, BLOCK):
        assert asked.answer(mail(event_id)) == [wanted]
        asked.guard.observe(ToolResult(session_id="s", call_id="c1"))


def test_one_result_ends_the_repeats_of_all_questions_under_its_call_id() -> None:
    asked = Asked()
    assert asked.answer(mail("e1"), mail("e2")) == [ALLOW, ALLOW]
    asked.guard.observe(ToolResult(session_id="s", call_id="c1"))
    assert asked.answer(mail("e1"), mail("e2")) == [BLOCK, BLOCK]


def test_a_block_and_the_question_that_it_announces_are_one_attempt_and_a_second_question_is_another() -> None:
    asked = Asked()
    block = {"type": "tool_use", "id": "c1", "name": "mail", "input": {"to": "x"}}
    asked.guard.observe(Turn(session_id="s", response={"content": [block], "stop_reason": "tool_use"}))
    assert asked.answer(mail("e1"), mail("e1"), mail("e2"), mail("e3")) == [ALLOW, ALLOW, ALLOW, BLOCK]


def test_a_call_that_is_told_and_asked_about_is_one_attempt_and_a_second_question_is_another() -> None:
    asked = Asked()
    asked.guard.observe(mail("told"))
    assert asked.answer(mail("e1")) == [ALLOW]
    asked.guard.observe(mail("told-too"))
    assert asked.answer(mail("e2"), mail("e3")) == [ALLOW, BLOCK]


def test_telling_of_a_refusal_hides_no_run() -> None:
    asked = Asked()
    for wanted in (ALLOW, ALLOW, BLOCK):
        assert asked.answer(mail()) == [wanted]
        asked.guard.observe(GateDecision(session_id="s", call_id="c1", tool="mail", action="block"))


def test_an_empty_turn_between_questions_changes_nothing() -> None:
    asked = Asked()
    for number, wanted in enumerate((ALLOW, ALLOW, BLOCK)):
        asked.guard.observe(Turn(session_id="s", response={"content": [], "stop_reason": "tool_use"}))
        assert asked.answer(mail(f"e{number}")) == [wanted]


def test_a_refused_question_may_be_asked_for_as_long_as_it_takes_and_is_one_attempt() -> None:
    once = {**CAP, "params": {"tool": "pay", "n": 1}}
    asked = Asked(BIG, once)
    big = mail(tool="pay", args={"amount": 10})
    for _ in range(5):
        assert asked.answer(big) == [PAUSE]
        asked.now += 300
    assert asked.answer(mail("e2", "c2", tool="pay", args={"amount": 1})) == [BLOCK], "the paused one counts once"


def test_questions_that_a_gate_recorded_are_as_many_attempts_on_a_stream() -> None:
    questions = [mail(f"e{number}", asked=True, time=100.0 + number) for number in range(4)]
    sightings = [mail(f"t{number}", time=100.5 + number) for number in range(4)]
    assert len(evaluate(questions, policy())) == 2
    assert evaluate(sightings, policy()) == [], "events that tell of one call may come from several sources"
    assert len(evaluate([event for pair in zip(questions, sightings, strict=True) for event in pair], policy())) == 2


class Reviewed:
    """A gate with a history, on a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_767_600_000.0
        self.database = open_database(str(folder / "history.db"))
        self.gate = Gate(policy(BIG), self.database, clock=lambda: self.now)

    def ask(self, event_id: str = "") -> Action:
        ruling = self.gate.check(mail(event_id, tool="pay", args={"amount": 10}))
        self.review = ruling.review or self.review
        return ruling.action

    def approve(self) -> None:
        self.gate.reviews.approve(self.review.id, by="ada")

    review: Any = None


@pytest.mark.parametrize(("event_id", "again"), [("e1", ALLOW), ("", PAUSE)])
def test_a_yes_of_a_person_is_given_again_only_to_the_same_event_at_once(
    tmp_path: Path, event_id: str, again: Action
) -> None:
    asked = Reviewed(tmp_path)
    assert asked.ask(event_id) is PAUSE
    asked.now += 300
    assert asked.ask(event_id) is PAUSE
    asked.approve()
    assert asked.ask(event_id) is ALLOW
    assert asked.ask(event_id) is again
    asked.now += FRESH
    assert asked.ask(event_id) is PAUSE, "one approval, one attempt"
    asked.database.close()


def announce(asked: Asked, *call_ids: str, tool: str = "mail", **header: Any) -> None:
    blocks = [{"type": "tool_use", "id": name, "name": tool, "input": {"to": "x"}} for name in call_ids]
    asked.guard.observe(Turn(session_id="s", response={"content": blocks, "stop_reason": "tool_use"}, **header))


RATE = {"id": "rate", "kind": "max_aggregate", "params": {"tool": "mail", "window_seconds": 60, "over": 2}}
BURST = {"when": {"call_count_in_window_gt": {"tool": "mail", "value": 2, "windowSeconds": 60}}}
FRESH_YES = {"id": "fresh", "kind": "must_call_before", "then": "block"} | {
    "params": {"first": "confirm", "second": "mail", "within_seconds": 60}
}


@pytest.mark.parametrize(
    "limit",
    [
        {**RATE, "then": "block"},
        {**RATE, "then": "block", "key": ["agent"]},
        {"id": "burst", "kind": "tool_guard", "params": {**BURST, "enforce_window": "inline"}, "then": "block"},
    ],
)
def test_calls_that_were_announced_a_window_ago_count_in_the_window_in_which_they_run(limit: dict[str, Any]) -> None:
    asked = Asked(limit)
    announce(asked, "c1", "c2", agent="bot")
    asked.now += 61
    fresh = [mail(f"n{number}", f"n{number}", agent="bot") for number in range(2)]
    held = [mail(f"e{number}", f"c{number}", agent="bot") for number in (1, 2)]
    assert asked.answer(*fresh, *held) == [ALLOW, ALLOW, BLOCK, BLOCK]


def test_a_confirmation_is_as_old_as_it_is_when_the_announced_call_is_asked_about() -> None:
    asked = Asked(FRESH_YES)
    assert asked.answer(mail("e0", "c0", tool="confirm")) == [ALLOW]
    announce(asked, "c1", "c2")
    assert asked.answer(mail("e1", "c1")) == [ALLOW]
    asked.now += 600
    assert asked.answer(mail("e2", "c2")) == [BLOCK]


@pytest.mark.parametrize("call_id", ["c1", ""])
@pytest.mark.parametrize(("later", "decided"), [(1, ALLOW), (600, BLOCK), (20_000, BLOCK)])
def test_a_confirmation_is_as_old_as_it_is_when_the_told_event_is_asked_about(
    call_id: str, later: float, decided: Action
) -> None:
    asked = Asked(FRESH_YES, CAP)
    assert asked.answer(mail("e0", "c0", tool="confirm")) == [ALLOW]
    asked.guard.observe(mail("e1", call_id))
    for number in range(3):
        asked.guard.observe(Turn(session_id="s", event_id=f"t{number}", response={"content": []}))
    asked.now += later
    assert asked.answer(mail("e1", call_id), mail("e1", call_id)) == [decided, decided]


def test_a_told_event_of_a_limit_that_began_anew_is_asked_about_as_one_attempt() -> None:
    asked = Asked({**CAP, "key": ["agent"]})
    asked.guard.observe(mail("e1", agent="bot"))
    for _ in range(3):  # the session goes on, and nobody hears of the agent
        asked.now += 700
        asked.guard.observe(UserMessage(session_id="s", text="go on"))
    assert asked.answer(*[mail("e1", agent="bot")] * 3, mail("e2", "c2", agent="bot")) == [ALLOW] * 4
    assert asked.answer(mail("e3", "c3", agent="bot")) == [BLOCK]


def test_a_slow_run_of_announced_calls_counts_each_once() -> None:
    asked = Asked({**CAP, "params": {"tool": "mail", "n": 4}})
    announce(asked, *(f"c{number}" for number in range(4)))
    for number in range(4):
        assert asked.answer(mail(f"e{number}", f"c{number}")) == [ALLOW]
        asked.now += 45
    assert asked.answer(mail("e9", "c9")) == [BLOCK]


def test_a_call_that_was_announced_under_another_name_counts_under_the_one_that_asks() -> None:
    asked = Asked({**CAP, "key": ["agent"]})
    for number in range(4):
        announce(asked, f"c{number}", agent=f"a{number}")
    calls = [mail(f"e{number}", f"c{number}", agent="bot") for number in range(4)]
    assert asked.answer(*calls) == [ALLOW, ALLOW, BLOCK, BLOCK]


def test_a_call_that_was_announced_before_a_limit_began_anew_counts_anew() -> None:
    asked = Asked({**CAP, "key": ["agent"]})
    announce(asked, "c1", "c2", agent="bot")
    for _ in range(3):  # the session goes on, and nobody hears of the agent
        asked.now += 700
        asked.guard.observe(UserMessage(session_id="s", text="go on"))
    calls = [mail(f"e{number}", name, agent="bot") for number, name in enumerate(("n1", "n2", "c1", "c2"))]
    assert asked.answer(*calls) == [ALLOW, ALLOW, BLOCK, BLOCK]
