"""Habits that name no tool: whether sessions keep such a rule, the engine says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from stream_guard.learning.candidates import FEWEST, RuleCandidate, rule_id
from stream_guard.learning.classes import ACTS, ANY, acts
from stream_guard.learning.facts import Facts


class _Habit(NamedTuple):
    name: str
    kind: str
    params: Mapping[str, Any]
    words: str
    tools: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()


# The strictest first, which covers the others.
_HABITS: Final = (
    _Habit(
        "given-any",
        "must_be_given",
        {"tool": ANY},
        "values of any tool were given by somebody",
        (ANY,),
        covers=(rule_id("habit", "given"),),
    ),
    _Habit("given", "must_be_given", {"tool": ACTS}, "values of what acts were given by somebody", (ACTS,)),
    # Twice is no habit: of fine sessions, a few do anything twice.
    _Habit(
        "repeated-3",
        "no_repeated_calls",
        {"times": 3, "max_period": 1, "user_resets": False},
        "the same call is not made 3 times in a row",
    ),
    _Habit(
        "failures-3",
        "max_failed_calls",
        {"tool": ANY, "n": 3, "in_a_row": True},
        "nothing is tried after 3 failures in a row",
    ),
    _Habit("failure", "no_hidden_failure", {}, "no response speaks of success after a failure"),
    _Habit("text", "no_text_with_calls", {}, "a response that calls tools says nothing besides"),
)


def mine_habits(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the habits that the sessions could break."""
    about = {
        ACTS: [session for session in facts.sessions if any(acts(call.tool) and call.args for call in session.calls)],
        ANY: [session for session in facts.sessions if any(call.args for call in session.calls)],
        "": [session for session in facts.sessions if session.calls],
    }
    calls = [call for session in facts.sessions for call in session.calls]
    places: dict[str, set[tuple[str, ...]]] = {
        ACTS: {(call.tool, argument) for call in calls if acts(call.tool) for argument in call.args},
        ANY: {(call.tool, argument) for call in calls for argument in call.args},
        "": {(call.tool,) for call in calls if acts(call.tool)},
    }
    for habit in _HABITS:
        sessions = about["".join(habit.tools)]
        tasks = sum(session.weight for session in sessions)
        if tasks >= FEWEST:
            yield RuleCandidate(
                id=rule_id("habit", habit.name),
                kind=habit.kind,
                params=habit.params,
                words=habit.words,
                tools=habit.tools,
                support=len(sessions),
                tasks=tasks,
                surprise=0.0,
                places=max(1, len(places["".join(habit.tools)])),
                is_guess=True,
                covers=habit.covers,
            )
