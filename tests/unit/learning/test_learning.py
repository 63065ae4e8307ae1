"""Rules are learned from fine sessions: what is true of the desk is proposed, and holds on sessions to come."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from stream_guard.judge.model import Event
from stream_guard.learning.candidates import Learned
from stream_guard.learning.choosing import as_policy
from stream_guard.learning.learning import learn
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.settings import SessionLimits
from tests.unit.learning.desk import Desk, bad_session, fine_session, fine_sessions

REGISTRY = build_registry()
SESSIONS = 120


def learned_from(events: list[Event]) -> Learned:
    return learn(lambda: events, REGISTRY, SessionLimits())


@cache
def of_the_desk() -> Learned:
    return learned_from(fine_sessions(SESSIONS))


def found_by(learned: Learned, events: list[Event]) -> set[str]:
    policy = as_policy((lesson.candidate for lesson in learned.proposed), REGISTRY)
    return {finding.rule_id for finding in evaluate(events, policy)}


def test_what_the_desk_does_is_proposed_and_broken_by_none_of_its_sessions() -> None:
    said = [lesson.candidate.words for lesson in of_the_desk().proposed]
    for words in (
        "get_order with the same order_id comes before cancel_order",
        "status of get_order for the order_id of cancel_order is pending",
        "refund_to of cancel_order is what get_order says under card",
        "reason of cancel_order was said by the user",
        "the user says yes before cancel_order",
        "no call comes after transfer_to_person",
        "the agent calls only cancel_order, find_customer, get_order, transfer_to_person",
    ):
        assert words in said
    assert all(not lesson.broken for lesson in of_the_desk().proposed)
    assert of_the_desk().alarmed == 0


def test_sessions_to_come_are_fine() -> None:
    assert found_by(of_the_desk(), [event for number in range(500, 560) for event in fine_session(number)]) == set()


def _delivered(desk: Desk) -> None:
    desk.user("I am user9, order W7: too late.")
    desk.call("find_customer", {"name": "user9"}, {"id": "id9", "orders": ["W7"]})
    desk.call("get_order", {"order_id": "W7"}, {"status": "delivered", "card": "cash"})
    desk.say("Shall I cancel W7?")
    desk.user("yes")
    desk.call("cancel_order", {"order_id": "W7", "reason": "too late", "refund_to": "gift card"})


def test_a_session_that_breaks_them_is_found_by_each() -> None:
    desk = Desk("odd")
    _delivered(desk)
    found = found_by(of_the_desk(), desk.events)
    assert "learned-state-cancel_order-get_order-status" in found
    assert "learned-equal-cancel_order-refund_to-get_order-card" in found
    unasked = Desk("unasked")
    unasked.user("please do")
    unasked.say("One moment.")
    unasked.call("cancel_order", {"order_id": "W1", "reason": "other"})
    assert {
        "learned-before-get_order-cancel_order-same-order_id",
        "learned-origin-cancel_order-reason",
        "learned-yes-before-cancel_order",
    } <= found_by(of_the_desk(), unasked.events)


def test_a_session_that_tries_on_after_failures_or_asks_the_same_again_is_found() -> None:
    desk = Desk("stuck")
    desk.user("I am user9, please look at my orders W1, W2, W3 and W4.")
    for order in ("W1", "W2", "W3", "W4"):
        desk.call("get_order", {"order_id": order}, "no such order", "error")
    assert "learned-habit-failures-3" in found_by(of_the_desk(), desk.events)
    loop = Desk("loop")
    for _ in range(3):
        loop.user("Where is W1?")
        loop.call("get_order", {"order_id": "W1"}, {"status": "pending", "card": "cash"})
    assert "learned-habit-repeated-3" in found_by(of_the_desk(), loop.events)


def _camel(tool: str) -> str:
    return "Acme" + "".join(word.capitalize() for word in tool.split("_"))


@pytest.mark.parametrize(
    "spell",
    [_camel, lambda tool: f"mcp__acme__{tool}", lambda tool: f"acme.{tool}", lambda tool: tool.replace("_", "-")],
)
def test_other_spellings_of_tools_give_the_same_rules(spell: Callable[[str], str]) -> None:
    spelled = learned_from(fine_sessions(SESSIONS, spell))
    assert [lesson.candidate for lesson in spelled.proposed] == [lesson.candidate for lesson in of_the_desk().proposed]
    desk = Desk("odd", spell)
    _delivered(desk)
    assert "learned-state-cancel_order-get_order-status" in found_by(of_the_desk(), desk.events)


def test_more_data_keeps_the_rules_that_are_about_the_same() -> None:
    more = {lesson.candidate.id for lesson in learned_from(fine_sessions(2 * SESSIONS)).proposed}
    assert {lesson.candidate.id for lesson in of_the_desk().proposed if lesson.candidate.surprise is not None} <= more


def test_the_order_of_sessions_does_not_matter() -> None:
    turned = [event for number in reversed(range(SESSIONS)) for event in fine_session(number)]
    turned_ids = {lesson.candidate.id for lesson in learned_from(turned).proposed}
    assert turned_ids == {lesson.candidate.id for lesson in of_the_desk().proposed}


def test_a_few_sessions_are_too_few() -> None:
    assert learned_from(fine_sessions(4)).proposed == []
    assert learned_from([]).proposed == []


def test_no_more_alarms_are_expected_than_may_be() -> None:
    """What fifteen tasks have in common, each of five tasks breaks in its own way: the next task may too."""
    events: list[Event] = []
    for number in range(90):
        task, desk = number % 15, Desk(f"s{number}")
        values = {name: f"{name}{task}" for name in ("account", "zone", "sort", "owner", "branch")}
        given = [value for place, value in enumerate(values.values()) if place != task]
        desk.user(f"Please pay what is due, with {', '.join(given)}, and tell me about it.")
        desk.call("pay", values)
        events += desk.events
    learned = learned_from(events)
    assert learned.tasks == 15
    assert learned.alarmed <= 0.1 * learned.judged  # nine of ninety are within chance of 5 %


def test_many_trials_of_one_task_say_no_more_than_one() -> None:
    trials = [event for number in range(SESSIONS) for event in _trial(number)]
    assert len(learned_from(trials).proposed) < len(of_the_desk().proposed)


def _trial(number: int) -> list[Event]:
    from msgspec.structs import replace

    return [replace(event, session_id=f"t{number}") for event in fine_session(number % 6)]


def test_names_that_would_be_patterns_are_never_written() -> None:
    odd = ["*", "@money", "a\n- id: smuggled", "x|y", "~z"]
    events = [
        event
        for number in range(30)
        for event in bad_session(
            f"s{number}", *((tool, {"a b*": "x", "k: v": 1}) for tool in odd), ("refund", {"n": 1})
        )
    ]
    text = " ".join(str(lesson.candidate) for lesson in learned_from(events).lessons)
    assert not [name for name in odd if name != "*" and name in text]
    assert "a b*" not in text
