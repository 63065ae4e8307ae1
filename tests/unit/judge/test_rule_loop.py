"""The loop over the rules of a plan: which run, in which order, with which state, and what becomes of an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stream_guard.judge.rule_loop import ANSWERED, DOUBTED, RAISED, RuleLoop, Step


class Seen:
    """A state that knows who saw it."""

    def __init__(self) -> None:
        self.by: list[str] = []


NO_STATE = Seen()


def answer(name: str) -> Callable[[Any, Any], str]:
    def handle(_event: Any, state: Seen) -> str:
        if state is not NO_STATE:
            state.by.append(name)
        return f"{name} saw {len(state.by)}"

    return handle


def step(number: int, name: str, *, keeps: bool) -> Step:
    return number, answer(name), Seen if keeps else None, name


def gate(tag: int) -> Callable[[Any, Any], bool]:
    return lambda _event, memory: tag in memory


def loop_of_all() -> RuleLoop:
    group = (
        gate(1),
        (step(2, "light inside", keeps=False), step(3, "inside", keeps=True)),
        (step(4, "outside", keeps=True),),
        (("doubtful", gate(2)),),
        ((5, Seen),),
    )
    return RuleLoop([step(0, "light", keeps=False), step(1, "plain", keeps=True)], [group], NO_STATE)


def names(answers: list[Any] | None) -> list[tuple[int, Any]]:
    return [(sort, whose) for sort, whose, _ in answers or []]


def test_what_has_no_gate_runs_before_what_stands_behind_an_open_one_whose_end_is_owed() -> None:
    slots: dict[Any, Any] = {}
    run = [(ANSWERED, name) for name in ("light", "plain", "light inside", "inside")]
    assert names(loop_of_all().run("event", {1}, slots)) == run
    assert [number for number, slot in slots.items() if slot.opened] == [5]


def test_behind_a_closed_gate_only_what_waits_outside_runs_and_a_doubt_is_told() -> None:
    outside = [(ANSWERED, name) for name in ("light", "plain", "outside")]
    assert names(loop_of_all().run("event", set(), {})) == outside
    assert names(loop_of_all().run("event", {2}, {})) == [(DOUBTED, "doubtful"), *outside]


def test_every_rule_that_keeps_a_state_has_one_of_its_own() -> None:
    loop, states = loop_of_all(), dict[Any, Any]()
    for _ in range(3):
        loop.run("event", {1}, states)
    assert {number: slot.state.by for number, slot in states.items()} == {5: [], 1: ["plain"] * 3, 3: ["inside"] * 3}


def test_an_exception_of_a_rule_is_an_answer_and_the_others_run() -> None:
    def fail(_event: Any, _state: Any) -> None:
        raise LookupError("broken")

    answers = RuleLoop([(0, fail, None, "broken"), step(1, "next", keeps=False)], [], NO_STATE).run("event", set(), {})
    assert names(answers) == [(RAISED, "broken"), (ANSWERED, "next")]


def test_what_is_no_exception_of_a_rule_goes_through() -> None:
    def stop(_event: Any, _state: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RuleLoop([(0, stop, None, "rule")], [], NO_STATE).run("event", set(), {})


def test_silence_is_no_list() -> None:
    silent: Step = (0, lambda _event, _state: None, None, "silent")
    assert RuleLoop([silent], [], NO_STATE).run("event", set(), {}) is None
