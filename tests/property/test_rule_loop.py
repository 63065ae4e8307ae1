"""The loop over rules of the compiled build: the same answers, in the same order, and states as of the plain one."""

from __future__ import annotations

import gc
import importlib.util
import weakref
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stream_guard as sg
from stream_guard.engine import rule_loop
from tests.c_modules import open_c_module
from tests.laws.test_compiled import ROOT

DOES = st.sampled_from(["nothing", "answer", "raise", "count"])


class State:
    """Counts how often a handler saw it."""

    def __init__(self) -> None:
        self.seen = 0


NO_STATE = State()


class Rule:
    """A rule that does one thing with every event."""

    def __init__(self, number: int, does: str) -> None:
        self.number, self.does = number, does

    def handle(self, event: Any, state: State) -> str | None:
        if self.does == "raise":
            raise LookupError(f"{self.number} at {event.id}")
        state.seen += self.does == "count"
        return f"{self.number} saw {state.seen}" if self.does in {"answer", "count"} else None


STEPS = st.lists(st.tuples(DOES, st.booleans()), max_size=4)
GATES = st.one_of(
    st.tuples(st.just("agent"), st.just(""), st.sampled_from(["a", "b", "é"])),
    st.tuples(st.just("label"), st.sampled_from(["tier", "env"]), st.sampled_from(["a", "b", "é"])),
    st.tuples(st.just("memory"), st.just(""), st.integers(1, 3)),
)
GROUPS = st.lists(
    st.tuples(GATES, st.booleans(), STEPS, STEPS, st.sampled_from([(), (True,), (False, True)]), st.booleans()),
    max_size=3,
)
EVENTS = st.lists(
    st.builds(
        SimpleNamespace,
        id=st.integers(0, 9),
        agent=st.sampled_from(["a", "b", "é", ""]),
        labels=st.dictionaries(st.sampled_from(["tier", "env"]), st.sampled_from(["a", "b", "é"])),
        memory=st.sets(st.integers(1, 3)),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The loop in Python, and the one in C."""
    spec = importlib.util.spec_from_file_location("plain_rule_loop", ROOT / "stream_guard/engine/rule_loop.py")
    assert spec is not None
    assert spec.loader is not None
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    in_c: ModuleType = open_c_module(rule_loop, tmp_path_factory.mktemp("c"))
    names = ("ANSWERED", "RAISED", "DOUBTED", "OPENED")
    assert [getattr(in_c, name) for name in names] == [getattr(plain, name) for name in names]
    return plain.RuleLoop, in_c.RuleLoop


def gate_of(asks: tuple[str, str, Any]) -> Callable[[Any, set[int]], bool]:
    what, name, expected = asks
    if what == "agent":
        return lambda event, _: bool(event.agent == expected)
    if what == "label":
        return lambda event, _: bool(event.labels.get(name) == expected)
    return lambda _, memory: expected in memory


def made(loop: Any, steps: list[tuple[str, bool]], groups: list[Any]) -> Any:
    count = iter(range(1000))

    def listed(steps: list[tuple[str, bool]], *, keep: bool | None = None) -> tuple[list[Any], int]:
        kept = [(does, keep if keep is not None else keeps) for does, keeps in steps]
        kept.sort(key=lambda step: step[1])
        rules = [(Rule(next(count), does), keeps) for does, keeps in kept]
        return [(rule.number, rule.handle, State if keeps else None, rule.number) for rule, keeps in rules], sum(
            not keeps for _, keeps in kept
        )

    gated = []
    for number, (asks, has_shortcut, inside, outside, doubts, is_told) in enumerate(groups):
        steps_inside, stateless = listed(inside)
        steps_outside, _ = listed(outside, keep=True)
        may_open = tuple((f"doubt {number}", lambda *_, answer=answer: answer) for answer in doubts)
        told = f"group {number}" if is_told else None
        shortcut = asks if has_shortcut else None
        gated.append((gate_of(asks), shortcut, steps_inside, stateless, steps_outside, may_open, told))
    own, stateless = listed(steps)
    return loop(own, stateless, gated, NO_STATE)


def said(answers: list[Any] | None) -> Any:
    return answers and [(sort, whose, repr(value)) for sort, whose, value in answers]


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, groups=GROUPS, events=EVENTS)
def test_both_loops_answer_alike(
    steps: list[tuple[str, bool]], groups: list[Any], events: list[Any], loops: tuple[Any, Any]
) -> None:
    told = []
    for loop in loops:
        NO_STATE.seen = 0
        ready, states = made(loop, steps, groups), dict[int, State]()
        answers = [said(ready.run(event, event.memory, states, event.agent, event.labels)) for event in events]
        told.append((answers, {number: state.seen for number, state in states.items()}, list(states)))
    assert told[0] == told[1]


def test_what_is_no_exception_of_a_rule_goes_through(loops: tuple[Any, Any]) -> None:
    def stop(_event: Any, _state: Any) -> None:
        raise KeyboardInterrupt

    for loop in loops:
        with pytest.raises(KeyboardInterrupt):
            loop([(0, stop, None, "rule")], 1, [], NO_STATE).run("event", set(), {}, "", {})
        gate: Any = (lambda *_: 1 // 0, None, [], 0, [], (), None)
        with pytest.raises(ZeroDivisionError):
            loop([], 0, [gate], NO_STATE).run("event", set(), {}, "", {})


class Kept(sg.State):
    """Begins with values that cannot change."""

    count: int = 0
    text: str = "none"
    times: tuple[float, ...] = ()
    last: float | None = None


class Grown(Kept):
    """Has a list, which every state needs for itself."""

    listed: list[int] = []
    number: int = msgspec.field(default_factory=iter(range(1000)).__next__)


class Checked(Kept):
    """Does something of its own when it is made."""

    def __post_init__(self) -> None:
        self.last = 1.5


@pytest.mark.parametrize("kind", [Kept, Grown, Checked])
def test_every_new_state_is_one_of_its_own(kind: type[Any], loops: tuple[Any, Any]) -> None:
    def count(_event: Any, state: Any) -> None:
        state.count += 1
        state.times += (1.0,)
        if isinstance(state, Grown):
            state.listed.append(state.count)

    for loop in loops:
        ready = loop([(0, count, kind, "rule"), (1, count, kind, "rule")], 0, [], NO_STATE)
        states: dict[int, Any] = {}
        for _ in range(3):
            assert ready.run("event", set(), states, "", {}) is None
        fresh = kind()
        for state in states.values():
            assert type(state) is kind
            assert (state.count, state.times, state.text, state.last) == (3, (1.0, 1.0, 1.0), "none", fresh.last)
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=kind) == state
        if kind is Grown:
            assert states[0].listed == states[1].listed == [1, 2, 3]
            assert states[0].number != states[1].number
        assert (fresh.count, fresh.times) == (0, ())


def test_more_gates_than_usual_are_asked(loops: tuple[Any, Any]) -> None:
    for loop in loops:
        gates: list[Any] = [(gate_of(("memory", "", number)), None, [], 0, [], (), number) for number in range(200)]
        answers = loop([], 0, gates, NO_STATE).run("event", set(range(0, 200, 2)), {}, "", {})
        assert [whose for _, whose, _ in answers] == list(range(0, 200, 2))


def test_a_loop_that_its_own_rules_refer_to_is_freed(loops: tuple[Any, Any]) -> None:
    rule = Rule(0, "answer")
    rule.loop = loops[1]([(0, rule.handle, State, rule)], 0, [], NO_STATE)  # type: ignore[attr-defined]  # a circle
    alive = weakref.ref(rule)
    del rule
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "given",
    [
        ([(0, print, None)], 1, [], None),
        ([], 1, [], None),
        ([], 0, [(print, None, [], 1, [], (), None)], None),
        ([], 0, [(print, None, [], 0)], None),
        ([], 0, ["gate"], None),
        ([], 0, [(print, None, [], 0, [], (5,), None)], None),
        ([], 0, [(print, None, 5, 0, [], (), None)], None),
        (5, 0, [], None),
    ],
)
def test_what_is_no_step_and_no_group_is_refused(given: tuple[Any, ...], loops: tuple[Any, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        loops[1](*given)
