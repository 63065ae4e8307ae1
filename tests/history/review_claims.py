"""The claims about who may answer a review, what is shown of it, and rows that were changed past stream_guard."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stream_guard.guard.gate import Gate
from stream_guard.history import audit
from stream_guard.history.records import AnswerRefusedError
from stream_guard.judge.model import Action
from stream_guard.settings import ReviewSettings
from tests.history.claims import World, call, review_of

APPROVED = {"status": "approved", "by": "ada"}


def forge(world: World, review: str, answer: dict[str, Any], **columns: Any) -> None:
    """Write into the row of a review, past stream_guard and its audit."""
    with world.database.transaction() as statements:
        [(body,)] = statements.run("SELECT body FROM sg_reviews WHERE id = ?", review)
        written = {"body": json.dumps({**json.loads(body), **answer}), **columns}
        if "status" in answer:
            written["status"] = answer["status"]
        for name, value in written.items():
            statements.run(f"UPDATE sg_reviews SET {name} = ? WHERE id = ?", value, review)


def paused(gate: Gate, amount: int = 20, call_id: str = "c1") -> str:
    return review_of(gate.check(call("pay", {"amount": amount}, call_id=call_id)))


def problems(world: World) -> str:
    return "\n".join(audit.verify(world.database).problems)


def approval_that_the_audit_does_not_know_lets_nothing_through(world: World) -> None:
    gate = world.gate()
    review = paused(gate)
    forge(world, review, APPROVED)
    again = gate.check(call("pay", {"amount": 20}, call_id="c1"))
    assert (again.action, review_of(again) != review) == (Action.PAUSE, True)
    assert f"review {review} is not what record 2 says: it was written past stream_guard" in problems(world)
    gate.reviews.approve(review_of(again), by="ada")
    assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.ALLOW
    assert review in problems(world), "the evidence stays"


def used_approval_that_is_put_back_lets_nothing_through(world: World) -> None:
    gate = world.gate()
    review = paused(gate)
    gate.reviews.approve(review, by="ada")
    [before] = world.database.read("SELECT * FROM sg_reviews")
    assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.ALLOW
    with world.database.transaction() as statements:
        statements.run("DELETE FROM sg_reviews")
        statements.run("INSERT INTO sg_reviews VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *before)
    assert gate.check(call("pay", {"amount": 20}, call_id="c2")).action is Action.PAUSE
    assert review in problems(world)


def approval_that_is_bound_to_another_attempt_lets_nothing_through(world: World) -> None:
    gate = world.gate()
    small, large = paused(gate, 20, "c1"), paused(gate, 9000, "c2")
    gate.reviews.approve(small, by="ada")
    [(binding,)] = world.database.read("SELECT binding FROM sg_reviews WHERE id = ?", large)
    forge(world, small, {}, binding=binding)
    assert gate.check(call("pay", {"amount": 9000}, call_id="c3")).action is Action.PAUSE
    assert small in problems(world)


def review_that_was_changed_cannot_be_answered(world: World) -> None:
    gate = world.gate()
    review = paused(gate)
    forge(world, review, {"arguments": {"amount": 1}})
    for answer in (gate.reviews.approve, gate.reviews.reject):
        with pytest.raises(AnswerRefusedError, match="changed outside stream_guard"):
            answer(review, by="ada")


def review_that_was_changed_does_not_become_valid_by_expiring(world: World) -> None:
    world.rules = ReviewSettings(timeout=60, on_timeout="approve")
    gate = world.gate()
    review = paused(gate)
    forge(world, review, {"policy_version": "v9", "expires": 0.0}, expires=0.0)
    world.now += 1
    assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.PAUSE
    assert review in problems(world)


def rows_that_were_added_or_taken_out_are_found(world: World) -> None:
    gate = world.gate()
    first, second = paused(gate, 1, "c1"), paused(gate, 2, "c2")
    with world.database.transaction() as statements:
        statements.run("UPDATE sg_reviews SET id = ? WHERE id = ?", "f" * 16, first)
    found = problems(world)
    assert f"review {'f' * 16} is in no record" in found
    assert f"review {first} was taken out" in found
    assert second not in found


def review_without_a_seal_does_not_count(world: World) -> None:
    gate = world.gate()
    review = paused(gate)
    forge(world, review, {**APPROVED, "record": 0})
    assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.PAUSE
    assert review in problems(world)


def agent_that_asked_cannot_approve(world: World) -> None:
    gate = world.gate()
    attempt = msgspec.structs.replace(call("pay"), agent="payments-bot@3", agent_path=("root", "desk@1"))
    review = review_of(gate.check(attempt))
    for name in (
        "payments-bot@3",
        "payments-bot",
        "Payments-Bot@4",
        " payments-bot\u200b",
        "\uff50ayments-bot",
        "p\u0430yments-bot",
        "root",
        "desk",
    ):
        with pytest.raises(AnswerRefusedError, match="asked for this; somebody else has to answer"):
            gate.reviews.approve(review, by=name)
    assert gate.reviews.approve(review, by="payments-bot@example.org").status == "approved"


def names_that_stand_for_nobody_cannot_answer(world: World) -> None:
    gate = world.gate()
    review = paused(gate)
    for name in ("timeout", "Timeout ", "time\u200bout", "stream_guard", "", " ", "\u200b"):
        for answer in (gate.reviews.approve, gate.reviews.reject):
            with pytest.raises(AnswerRefusedError, match=r"your own name|say who answers"):
                answer(review, by=name)


def two_people_have_to_approve_where_the_settings_say_so(world: World) -> None:
    world.rules = ReviewSettings(approvals=2)
    gate = world.gate()
    review = paused(gate)
    first = gate.reviews.approve(review, by="ada", note="looks right")
    assert (first.status, first.approvals) == ("open", ("ada",))
    assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.PAUSE
    with pytest.raises(AnswerRefusedError, match="it needs another person as well"):
        gate.reviews.approve(review, by="ADA")
    gate.reviews.approve(review, by="bob", note="I agree")
    allowed = gate.check(call("pay", {"amount": 20}, call_id="c1"))
    assert (allowed.action, allowed.reason) == (Action.ALLOW, "approved by ada, bob: looks right; I agree")
    assert problems(world) == ""


def one_of_two_people_can_reject(world: World) -> None:
    world.rules = ReviewSettings(approvals=2)
    gate = world.gate()
    review = paused(gate)
    gate.reviews.approve(review, by="ada")
    gate.reviews.reject(review, by="bob")
    assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.BLOCK


def review_shows_all_that_will_run(world: World) -> None:
    gate = world.gate()
    args = {"to": "DE89 3704 0044 0532 0130 00", "token": "a-secret", "k" * 300 + "1": 1, "k" * 300 + "2": 2}
    args |= {"list": list(range(80)), "text": "x" * 5000 + "the end", "deep": [[[[[[[[[["here"]]]]]]]]]]}
    shown = gate.reviews.get(review_of(gate.check(call("pay", args))))
    assert shown is not None
    assert shown.arguments == args
    [listed] = gate.reviews.listing()
    assert len(str(listed.arguments)) < 2000, "a list has excerpts"


def arguments_that_the_policy_masks_are_not_shown(world: World) -> None:
    gate = world.gate()
    gate.policy = replace(gate.policy, masked_arguments=("pin",))
    args = {"amount": 20, "pin": "1234", "cards": [{"pin": ["5678"], "to": "bob"}]}
    shown = gate.reviews.get(review_of(gate.check(call("pay", args, call_id="c1"))))
    assert shown is not None
    hidden = "[masked by the policy]"
    assert shown.arguments == {"amount": 20, "pin": hidden, "cards": [{"pin": hidden, "to": "bob"}]}
    gate.reviews.approve(shown.id, by="ada")
    other = {**args, "pin": "9999"}
    assert gate.check(call("pay", other, call_id="c2")).action is Action.PAUSE, "the digest is of what will run"
    assert gate.check(call("pay", args, call_id="c1")).action is Action.ALLOW


def attempt_that_nobody_could_read_is_blocked(world: World) -> None:
    world.rules = ReviewSettings(max_bytes=1000)
    gate = world.gate()
    refused = gate.check(call("pay", {"text": "x" * 1000}, call_id="c1"))
    assert (refused.action, gate.reviews.listing()) == (Action.BLOCK, [])
    assert "the arguments have 1011 bytes, more than the 1000 a person is shown" in refused.reason


def attempts_wait_for_people_up_to_a_limit(world: World) -> None:
    world.rules = ReviewSettings(max_open=2)
    gate = world.gate()
    first = paused(gate, 1, "c1")
    paused(gate, 2, "c2")
    assert gate.check(call("pay", {"amount": 3}, call_id="c3")).action is Action.BLOCK
    assert gate.check(call("pay", {"amount": 1}, call_id="c1")).action is Action.PAUSE
    gate.reviews.reject(first, by="ada")
    assert gate.check(call("pay", {"amount": 4}, call_id="c4")).action is Action.PAUSE


def reviews_of_another_tenant_are_not_there(world: World) -> None:
    gate = world.gate()
    attempt = msgspec.structs.replace(call("pay"), labels={"tenant": "acme"})
    review = review_of(gate.check(attempt))
    assert gate.reviews.get(review, "acme") == gate.reviews.get(review)
    assert (gate.reviews.get(review, "other"), gate.reviews.listing(tenant="other")) == (None, [])
    for answer in (gate.reviews.approve, gate.reviews.reject):
        with pytest.raises(AnswerRefusedError, match="there is no review"):
            answer(review, by="ada", tenant="other")
    assert gate.reviews.approve(review, by="ada", tenant="acme").status == "approved"


def answer_that_the_audit_does_not_know_lets_nothing_through(world: World) -> None:
    gate = world.gate()
    review = paused(gate)
    allow = '{"action": 0, "reason": "approved by ada", "rule_ids": ["pay"], "record": 2}'
    for body in (allow, allow.replace(', "record": 2', "")):
        with world.database.transaction() as statements:
            statements.run("UPDATE sg_rulings SET body = ?", body)
        assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.PAUSE
        assert ("an answer of the gate is not what record 2 says" in problems(world)) is ("record" in body)
    gate.reviews.approve(review, by="ada")
    assert gate.check(call("pay", {"amount": 20}, call_id="c1")).action is Action.ALLOW


def honest_answer_is_given_again_and_the_audit_agrees(world: World) -> None:
    gate = world.gate()
    asked = call("pay", {"amount": 20}, call_id="c1", event_id="e1")
    gate.reviews.approve(review_of(gate.check(asked)), by="ada")
    for gate_now in (gate, gate, world.gate(database=world.connect())):
        assert gate_now.check(asked).action is Action.ALLOW
    assert problems(world) == ""


def session_that_was_ended_and_taken_out_is_found(world: World) -> None:
    world.gate().check(call("leak"))
    assert problems(world) == ""
    with world.database.transaction() as statements:
        statements.run("DELETE FROM sg_ended")
    assert "ended a session, and its row was taken out" in problems(world)


REVIEW_CLAIMS: tuple[Callable[[World], None], ...] = (
    approval_that_the_audit_does_not_know_lets_nothing_through,
    used_approval_that_is_put_back_lets_nothing_through,
    approval_that_is_bound_to_another_attempt_lets_nothing_through,
    review_that_was_changed_cannot_be_answered,
    review_that_was_changed_does_not_become_valid_by_expiring,
    rows_that_were_added_or_taken_out_are_found,
    review_without_a_seal_does_not_count,
    agent_that_asked_cannot_approve,
    names_that_stand_for_nobody_cannot_answer,
    two_people_have_to_approve_where_the_settings_say_so,
    one_of_two_people_can_reject,
    review_shows_all_that_will_run,
    arguments_that_the_policy_masks_are_not_shown,
    attempt_that_nobody_could_read_is_blocked,
    attempts_wait_for_people_up_to_a_limit,
    reviews_of_another_tenant_are_not_there,
    answer_that_the_audit_does_not_know_lets_nothing_through,
    honest_answer_is_given_again_and_the_audit_agrees,
    session_that_was_ended_and_taken_out_is_found,
)
