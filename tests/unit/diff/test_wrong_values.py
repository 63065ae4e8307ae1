"""Wrong values: one that came about as no right one does is told from the others."""

from __future__ import annotations

import random
from typing import Any

import pytest
from stream_guard_diff.measures.task_values import ValueEvidence, ValuePlaces, weigh_values
from stream_guard_diff.trails import SessionTrail, read_trails

from stream_guard.judge.model import Event, ToolResult, Turn, UserMessage


def session(number: int, *, wrong: bool) -> SessionTrail:
    """A gardener's agent lists plots, is told which one to water, and waters it, or another one that was listed."""
    drawn = random.Random(f"{number} plots")
    plots = [f"plot-{drawn.randrange(100, 1000)}" for _ in range(4)]
    meant, given = plots[0], plots[3] if wrong else plots[0]
    name: Any = {"session_id": f"s{number}"}
    water = {"type": "tool_use", "id": "c", "name": "update_watering", "input": {"plot": given, "minutes": number % 3}}
    events: list[Event] = [
        UserMessage(**name, text="What do I have to water?"),
        ToolResult(**name, tool="list_plots", call_id="l", output=drawn.sample(plots, 4)),
        Turn(**name, response={"content": [{"type": "text", "text": f"Shall I water {meant}?"}]}),
        UserMessage(**name, text=f"Yes, {meant} please."),
        Turn(**name, response={"content": [water]}),
    ]
    [trail] = read_trails(events)
    return trail


def weighed(trails: list[SessionTrail], mates: list[list[int]] | None = None) -> list[ValueEvidence]:
    return weigh_values([ValuePlaces(trail) for trail in trails], mates or [[] for _ in trails])


def test_a_value_that_was_listed_but_not_spoken_of_looks_wrong() -> None:
    found = weighed([session(number, wrong=number >= 40) for number in range(46)])
    assert min(one.of_all for one in found[40:]) > max(one.of_all for one in found[:40])


def test_what_another_run_of_the_task_gives_is_not_odd_for_the_task() -> None:
    trails = [session(number, wrong=number >= 40) for number in range(42)] + [session(41, wrong=True)]
    alone = weighed(trails)
    paired = weighed(trails, [[]] * 41 + [[42], [41]])
    assert alone[41].of_unshared > 0
    assert paired[41].of_unshared == 0
    assert paired[40].of_unshared > 0


def test_of_two_runs_that_give_different_values_the_one_whose_value_looks_wrong_is_told_from_the_other() -> None:
    trails = [session(number, wrong=False) for number in range(41)] + [session(40, wrong=True)]
    mates: list[list[int]] = [[]] * 40 + [[41], [40]]
    right, wrong = weighed(trails, mates)[40:]
    assert wrong.of_rivals > 0 > right.of_rivals
    assert all(one.of_rivals == 0 for one in weighed(trails))


def test_the_order_of_the_sessions_does_not_matter() -> None:
    trails = [session(number, wrong=number % 9 == 0) for number in range(40)]
    there, back = weighed(trails), weighed(trails[::-1])[::-1]
    assert [one.of_all for one in there] == pytest.approx([one.of_all for one in back], abs=1e-9)


def test_texts_of_the_agents_own_and_few_values_say_nothing() -> None:
    assert weighed([session(number, wrong=True) for number in range(5)]) == [ValueEvidence()] * 5
    assert weighed([]) == []


def test_a_value_stands_where_all_of_its_words_do_and_words_beside_a_call_are_no_evidence_for_it() -> None:
    name: Any = {"session_id": "s"}
    call = {"type": "tool_use", "id": "c", "name": "set_address", "input": {"street": "12 Elm Road"}}
    events: list[Event] = [
        UserMessage(**name, text="I moved to 12, Elm Road."),
        UserMessage(**name, text="Not to 12 Oak Road."),
        Turn(**name, response={"content": [{"type": "text", "text": "I set 12 Elm Road."}, call]}),
    ]
    places = ValuePlaces(read_trails(events)[0])
    [value] = places.values
    assert list(places.steps_with(value.text, value.at)) == [0]
    assert list(places.steps_with(value.text, 99)) == [0, 2, 3]
    assert places.siblings("99", value.at) == ["12"]
