"""Measures: a fault shows in the sessions that have it, and in no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from stream_guard_diff.judging import deal, differences, far_columns, fill_missing, novelty
from stream_guard_diff.measures import ItemTable, SessionItem, measure_sessions
from stream_guard_diff.pairing import Stratum
from stream_guard_diff.trails import read_trails

from stream_guard.judge.model import Event, Turn, UserMessage
from tests.unit.diff.agents import Plant, edit_calls, repeat_call, run, skip_confirmation

TASKS = 50
FAULTY = 4  # sessions, the first ones of the second run


def measured(plant: Plant) -> ItemTable:
    events = run(1, TASKS) + run(2, TASKS, plant=plant, share=FAULTY / TASKS)
    return measure_sessions(read_trails(events), [*range(TASKS), *range(TASKS)])


def sessions_that(table: ItemTable, axis: str, says: str) -> list[int]:
    """Return the rows of the sessions that show an item."""
    found = {
        item.says: np.flatnonzero(column).tolist()
        for item, column in zip(table.items, table.columns, strict=True)
        if item.axis == axis
    }
    return next(rows for item, rows in found.items() if says in item)


def another_tool(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"name": "repay"}


def another_name(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": {"order": block["input"]["order_id"], "amount": block["input"]["amount"]}}


def no_amount(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": {"order_id": block["input"]["order_id"]}}


def a_digit_more(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": block["input"] | {"order_id": f"{block['input']['order_id']}7"}}


def made_up(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": block["input"] | {"order_id": f"nowhere {block['input']['order_id'][::-1]}"}}


def emptied(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": block["input"] | {"order_id": []}}


def placeholders(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": dict.fromkeys(block["input"], "TBD")}


def declines(text: str) -> Plant:
    def plant(session: list[Event]) -> list[Event]:
        last = session[-2]
        assert isinstance(last, Turn)
        return [*session[:-2], msgspec.structs.replace(last, response={"content": [{"type": "text", "text": text}]})]

    return plant


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "Unfortunately I must decline this request.",
        "That is not something I can do for you.",
        "I apologize, but this is outside of what I am allowed to do.",
    ],
)
def test_a_refusal_shows_in_whatever_words(text: str) -> None:
    table = measured(declines(text))
    assert sessions_that(table, "refusals", "ends with a short answer") == [TASKS + number for number in range(FAULTY)]


def twice_the_tokens(session: list[Event]) -> list[Event]:
    return [
        msgspec.structs.replace(event, response=event.response | {"usage": {"output_tokens": 2 * tokens(event)}})
        if isinstance(event, Turn)
        else event
        for event in session
    ]


def tokens(turn: Turn) -> int:
    return 5 + sum(len(str(block.get("text") or block.get("input"))) for block in turn.response["content"]) // 4


@pytest.mark.parametrize(
    ("plant", "axis", "says"),
    [
        (repeat_call, "repeats", "gets the same answer again"),
        (edit_calls(another_tool), "new_tools", "in the place of a usual one"),
        (edit_calls(another_name), "arguments", "under another name"),
        (edit_calls(no_amount), "arguments", "leaves out an argument"),
        (edit_calls(a_digit_more), "odd_values", "nearly a known one"),
        (edit_calls(made_up), "odd_values", "stood nowhere before"),
        (edit_calls(emptied), "odd_values", "is empty"),
        (edit_calls(placeholders), "argument_values", "gives TBD, to whatever argument"),
    ],
    ids=[
        "repeated",
        "tool renamed",
        "argument renamed",
        "argument missing",
        "nearly right",
        "made up",
        "emptied",
        "placeholder",
    ],
)
def test_a_fault_shows_in_the_sessions_that_have_it_and_in_no_other(plant: Plant, axis: str, says: str) -> None:
    assert sessions_that(measured(plant), axis, says) == [TASKS + number for number in range(FAULTY)]


def test_a_call_that_lacks_the_question_and_the_yes_says_more_than_one_that_lacks_a_question() -> None:
    table = measured(skip_confirmation)
    [asked] = [column for column, item in enumerate(table.items) if "without a question and a yes" in item.says]
    assert len(np.flatnonzero(table.columns[asked])) > FAULTY  # this agent asks in odd words now and then
    strongest = np.argsort(-table.evidence[asked])[:FAULTY]
    assert sorted(strongest.tolist()) == [TASKS + number for number in range(FAULTY)]


def ask_how_to_pay(session: list[Event]) -> list[Event]:
    """After the yes, ask for a detail, and look something up."""
    yes = max(place for place, event in enumerate(session) if isinstance(event, UserMessage))
    header: dict[str, Any] = {"session_id": session[0].session_id, "labels": session[0].labels}
    look = {"type": "tool_use", "id": "look", "name": "get_cards", "input": {}}
    talk: list[Event] = [
        Turn(**header, event_id="p1", response={"content": [{"type": "text", "text": "To which card?"}]}),
        UserMessage(**header, event_id="p2", text="The blue card."),
        Turn(**header, event_id="p3", response={"content": [look]}),
    ]
    return [*session[: yes + 1], *talk, *session[yes + 1 :]]


def test_a_yes_counts_though_other_talk_and_other_calls_come_after_it() -> None:
    says = "without a question and a yes"
    table, usual = measured(ask_how_to_pay), measured(lambda session: session)
    assert sessions_that(table, "skipped_steps", says) == sessions_that(usual, "skipped_steps", says)


def test_a_yes_before_the_last_change_is_for_that_change_alone() -> None:
    def refund_more(session: list[Event]) -> list[Event]:
        more = UserMessage(
            session_id=session[0].session_id, event_id="m1", text="I have another order.", labels=session[0].labels
        )
        call = msgspec.structs.replace(session[-4], event_id="m2")
        return [*session[:-2], more, call, *session[-2:]]

    found = sessions_that(measured(refund_more), "skipped_steps", "without a question and a yes")
    assert set(range(TASKS, TASKS + FAULTY)) <= set(found)


def test_a_repeated_call_says_the_less_the_more_sessions_repeat_that_tool() -> None:
    few, many = (measure_sessions(read_trails(run(1, TASKS, plant=repeat_call, share=share))) for share in (0.1, 0.8))
    strongest = [
        max(table.evidence[column])
        for table in (few, many)
        for column, item in enumerate(table.items)
        if "gets the same answer again" in item.says
    ]
    assert strongest[0] > 2
    assert 0 < strongest[1] < 1


def test_a_table_keeps_evidence_with_its_column_when_it_is_split() -> None:
    table = ItemTable(8)
    table.add(SessionItem("words", "says so"), [0, 1] * 4)
    table.add(SessionItem("repeats", "repeats", 1), [0, 1] * 4, evidence=[0, 3] * 4)
    words = table.split_off("words")
    assert words.evidence_matrix().tolist() == words.matrix().tolist() == [[0], [1]] * 4
    assert table.matrix().tolist() == [[0], [1]] * 4
    assert table.evidence_matrix().tolist() == [[0], [3]] * 4
    assert table.items[0].graded


def test_tokens_that_nobody_reads_are_seen_beside_the_other_session_of_the_task() -> None:
    events = [
        msgspec.structs.replace(event, response=event.response | {"usage": {"output_tokens": tokens(event)}})
        if isinstance(event, Turn)
        else event
        for event in run(1, TASKS)
    ]
    events += run(2, TASKS, plant=twice_the_tokens, share=FAULTY / TASKS)
    table = measure_sessions(read_trails(events), [*range(TASKS), *range(TASKS)])
    strata = [Stratum(str(place), "label", (place,), (place,)) for place in range(TASKS)]
    items, values = far_columns(table.items, fill_missing(table.matrix(), strata, TASKS), strata, TASKS)
    [far] = [column for column, item in enumerate(items) if "far more output tokens for 1,000" in item.says]
    assert np.flatnonzero(values[:, far]).tolist() == [TASKS + number for number in range(FAULTY)]


def things(*rows: str) -> Sequence[set[str]]:
    return [set(row.split()) for row in rows]


def test_what_only_one_side_has_is_counted_anew_in_every_deal_and_swapping_the_sides_turns_the_sign() -> None:
    strata = [Stratum(str(place), "label", (place,), (place,)) for place in range(3)]
    swapped = [Stratum(str(place), "label", (place + 3,), (place - 3,)) for place in range(3)]
    sets = things("a", "a", "a b", "a c", "a c", "a b")
    moved, marked, new = novelty(deal(strata, 6, 3, count=50), sets)
    assert new == ["c"]
    assert marked.tolist() == [0, 0, 0, 1, 1, 0]
    assert moved[0] == pytest.approx(2 / 3)
    back, _, gone = novelty(deal(swapped, 6, 3, count=50), sets)
    assert back[0] == pytest.approx(-2 / 3)
    assert gone == []
    # In a deal that parts the two sessions with c, neither side has it alone.
    assert 0.0 in moved


def test_a_thing_that_too_few_sessions_have_is_not_counted_where_more_are_asked_for() -> None:
    strata = [Stratum(str(place), "label", (place,), (place,)) for place in range(3)]
    sets = things("", "", "", "c", "c", "d")
    deals = deal(strata, 6, 3, count=50)
    assert novelty(deals, sets, least=3)[2] == []
    assert novelty(deals, sets, least=2)[2] == ["c"]
    assert novelty(deals, sets)[2] == ["c", "d"]
    ones = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
    assert novelty(deals, sets)[0][0] == differences(deals, ones)[0, 0]


def of_another_task(block: dict[str, Any]) -> dict[str, Any]:
    """Refund an order that exists, and that other sessions are about."""
    order = f"W{int(block['input']['order_id'][1:]) + FAULTY}"
    return block | {"input": block["input"] | {"order_id": order}}


def test_a_value_that_no_other_run_of_the_task_gives_a_consequential_call_shows_where_they_agree() -> None:
    wrong = run(3, TASKS, plant=edit_calls(of_another_task), share=FAULTY / TASKS)
    trails = read_trails(run(1, TASKS) + run(2, TASKS) + wrong)
    table = measure_sessions(trails, [*range(TASKS)] * 3)
    planted = [2 * TASKS + number for number in range(FAULTY)]
    assert sessions_that(table, "task_values", "no other run of its task") == planted
    # One other run agrees with nobody; but the session never spoke of the value that it gives.
    alone = measured(edit_calls(of_another_task))
    assert sessions_that(alone, "task_values", "looks wrong") == [TASKS + number for number in range(FAULTY)]
