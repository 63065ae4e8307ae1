"""Of many candidates, those are chosen that are worth most for their alarms."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from stream_guard.learning.candidates import RuleCandidate
from stream_guard.learning.choosing import choose, is_sure

SURE = RuleCandidate("sure", "max_calls", {}, "a sure rule", ("read",), support=50, tasks=50.0, surprise=20.0)
UNSURE = replace(SURE, id="unsure", surprise=3.0)
BOUND = replace(SURE, id="bound", surprise=None)
ALARMS = {name: {f"s{number}" for number in range(count)} for name, count in (("loud", 3), ("louder", 8))}


def chosen(*candidates: RuleCandidate, most_alarms: float) -> list[str]:
    return [candidate.id for candidate in choose(candidates, ALARMS, most_alarms)]


def test_quiet_rules_come_before_a_loud_one_that_is_worth_as_much_as_all_of_them() -> None:
    quiet = [replace(SURE, id=f"quiet{number}") for number in range(6)]
    loud = replace(SURE, id="loud", places=40)
    assert chosen(loud, *quiet, most_alarms=2.0) == [candidate.id for candidate in quiet]
    assert chosen(loud, *quiet, most_alarms=5.0)[0] == "loud"


def test_few_sessions_give_few_rules_even_where_none_had_an_alarm() -> None:
    many = [replace(SURE, id=f"quiet{number:02}") for number in range(30)]
    fewer, more = (len(chosen(*many, most_alarms=0.05 * sessions)) for sessions in (40, 200))
    assert 0 < fewer < more
    assert len(chosen(*many, most_alarms=inf)) == 30


def test_alarms_in_the_same_sessions_count_once() -> None:
    louder, loud = replace(SURE, id="louder", places=40), replace(SURE, id="loud")
    assert chosen(loud, louder, most_alarms=8.5) == ["louder", "loud"]


def test_what_another_says_too_takes_up_no_alarm() -> None:
    general = replace(SURE, id="general", places=9, covers=("single",))
    assert chosen(replace(SURE, id="single"), general, most_alarms=0.3) == ["general"]
    late = replace(general, places=1, surprise=10.0)
    assert chosen(replace(SURE, id="single"), late, most_alarms=0.3) == ["general"]


def test_what_acts_needs_less_certainty_and_a_bound_needs_many_tasks_and_no_alarm() -> None:
    assert not is_sure(UNSURE, set())
    assert is_sure(replace(UNSURE, tools=("delete_account",)), set())
    assert is_sure(BOUND, set())
    assert not is_sure(BOUND, {"s1"})
    assert not is_sure(replace(BOUND, tasks=20.0), set())
