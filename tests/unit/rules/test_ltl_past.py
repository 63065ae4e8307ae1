"""Formulas about the past and the near future agree with their meaning, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_guard_rules.ltl_formula import LtlFormula
from stream_guard_rules.shared.ltl import FormulaError, PastFormulas, parse

from stream_guard.testing import find, one_rule_policy

NAMES = ("a", "b", "c")
TURNS = st.lists(st.sets(st.sampled_from(NAMES)), min_size=1, max_size=7)


def fires(formula: str, turns: Sequence[set[str]], *, listed: bool = True) -> list[int | str]:
    """Return where the rule fires; calls stand in their turn, or follow as events of their own."""
    named = formula
    for name in NAMES:
        named = named.replace(f"@{name}", f"tool_call:{name}")
    trace: list[dict[str, object]] = []
    for turn in turns:
        if listed:
            trace.append({"turn": None, "calls": sorted(turn)})
        else:
            trace.append({"turn": "t", "stop": "tool_use" if turn else "end_turn"})
            trace += [{"call": name} for name in sorted(turn)]
    placed = find(one_rule_policy(LtlFormula, {"formula": named}), [*trace, {"end": "closed"}])
    return [at for at, _ in placed]


MEANINGS: dict[str, Callable[[Sequence[set[str]], int], bool]] = {
    "G (@a -> formerly @b)": lambda turns, at: "a" not in turns[at] or any("b" in turn for turn in turns[: at + 1]),
    "G (@a -> previous @b)": lambda turns, at: "a" not in turns[at] or (at > 0 and "b" in turns[at - 1]),
    "G (@a -> historically !@b)": lambda turns, at: "a" not in turns[at] or all("b" not in t for t in turns[: at + 1]),
    "G (@a -> (!@c since @b))": lambda turns, at: (
        "a" not in turns[at]
        or any("b" in turns[one] and all("c" not in turn for turn in turns[one + 1 : at + 1]) for one in range(at + 1))
    ),
    "G (@a -> within[2] @b)": lambda turns, at: "a" not in turns[at] or any("b" in t for t in turns[at : at + 3]),
    "G (@a -> previous formerly @b)": lambda turns, at: "a" not in turns[at] or any("b" in t for t in turns[:at]),
    "G (@a -> always[1] !@c)": lambda turns, at: "a" not in turns[at] or all("c" not in t for t in turns[at : at + 2]),
}


@pytest.mark.parametrize("formula", MEANINGS)
@settings(max_examples=settings().max_examples, deadline=None)
@given(turns=TURNS)
def test_formula_means_what_it_says(formula: str, turns: list[set[str]]) -> None:
    meaning = MEANINGS[formula]
    good = all(meaning(turns, at) for at in range(len(turns)))
    assert bool(fires(formula, turns)) is not good


@pytest.mark.parametrize("formula", ["G (@a -> formerly @b)", "G (@a -> previous @b)", "G (@a -> (!@c since @b))"])
@settings(max_examples=settings().max_examples, deadline=None)
@given(turns=TURNS)
def test_calls_that_follow_their_turn_count_for_it(formula: str, turns: list[set[str]]) -> None:
    assert bool(fires(formula, turns, listed=False)) is bool(fires(formula, turns))


def test_a_rule_about_the_past_fires_at_the_turn_that_breaks_it() -> None:
    assert fires("G (@a -> formerly @b)", [set(), {"c"}, {"a"}, {"b"}]) == [2]


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("formerly F a", "F looks ahead and stands inside an operator about the past"),
        ("a since b since c", "column 11: since does not chain"),
        ("within[99] a", "column 1: within\\[99\\] looks too far ahead; 32 turns at most"),
        ("within[32] within[32] within[32] a", "more than 80 operators"),
        (" & ".join(f"previous x{number}" for number in range(33)), "more than 32 operators about the past"),
    ],
)
def test_a_formula_that_cannot_be_watched_is_refused(formula: str, why: str) -> None:
    with pytest.raises(FormulaError, match=why):
        PastFormulas(parse(formula))
