"""A rule that stops judges what the tool gets, whatever its types and however a model spells the arguments."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import isfinite
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_guard.guard.inline import Guard
from stream_guard.integrations.attempts import as_handed_over
from stream_guard.judge.arguments import Executor, Type, taken_as
from stream_guard.judge.json_values import json_equal
from stream_guard.judge.model import Action, ToolCall
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS

_logger = logging.getLogger(__name__)
PACKAGES = {"mcp": "mcp", "openai-agents": "agents", "openai-agents-strict": "agents", "langchain": "langchain"}
FEW, MANY = 15, 800  # tools: in every run, and in the slow one
CALLS, MANY_CALLS = 8, 50  # that are tried of one tool; to make a tool takes as long as a hundred calls
TAKEN = 10_000  # calls that executors take in the slow run, at least
TYPES: tuple[Type, ...] = ("number", "flag", "null")
DEFAULTS: dict[Any, Any] = {int: 5, bool: True, str: "x", float: 0.5}
_SLACK = [HealthCheck.too_slow, HealthCheck.filter_too_much]
SEARCH = settings(max_examples=FEW, deadline=None, suppress_health_check=_SLACK)
LONG_SEARCH = settings(SEARCH, max_examples=MANY)


def executors() -> Any:
    from tests.frameworks import executors  # takes seconds to import, with its frameworks

    return executors


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is no object and no list, with its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path, value
        return
    for key, item in inner:
        yield from leaves(item, f"{path}.{key}" if path else str(key))


def forbids(number: int, path: str, value: Any) -> RuleSpec:
    """Return a rule that stops a call with this value at the path."""
    when: dict[str, Any] = {"arg_eq": {"path": path, "value": value}}
    if type(value) is int or type(value) is float:
        when = {"all_of": [{"arg_gte": {"path": path, "value": value}}, {"arg_lte": {"path": path, "value": value}}]}
    return rule_spec(KINDS["tool_guard"], {"when": when}, rule_id=f"r{number}", then=Action.BLOCK)


class Forbidden:
    """Values at paths, each of which a rule forbids: one guard for all calls of a tool."""

    def __init__(self, places: Iterable[tuple[str, Any]]) -> None:
        self._names: dict[str, str] = {}
        rules: list[RuleSpec] = []
        for path, value in places:
            key = json.dumps([path, value])
            if key not in self._names:
                rules.append(forbids(len(rules), path, value))
                self._names[key] = rules[-1].id
        self._guard = Guard(Policy(rules=tuple(rules), version="v1"))
        self._asked = 0

    def stopping(self, args: Any, schema: Any, executor: Executor) -> set[str]:
        """Return the values that rules object to in a call."""
        value, handed = as_handed_over(args, schema, executor)
        self._asked += 1
        call = ToolCall(session_id=f"s{self._asked}", tool="tool", call_id="c", args=value, handed=handed)
        decision = self._guard.check(call)
        if decision.action is Action.ALLOW:
            return set()
        named = set(decision.rule_ids)
        return {key for key, name in self._names.items() if name in named}


@st.composite
def called(draw: st.DrawFn, calls: int = CALLS) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Draw the types of a tool's arguments, defaults of some, and the arguments of calls."""
    made = executors()
    kinds = draw(st.dictionaries(st.sampled_from(made.NAMES), made.TYPES, min_size=1, max_size=3))
    with_default = draw(st.sets(st.sampled_from(sorted(kinds)), max_size=len(kinds) - 1))
    defaults = {name: DEFAULTS[kinds[name]] for name in with_default if kinds[name] in DEFAULTS}
    # From a seed: drawn one by one, the values would take most of the time.
    random = Random(draw(st.integers(0, 2**32)))
    drawn = [
        {
            name: made.value_for(kind, random)
            for name, kind in kinds.items()
            if name not in defaults or random.random() < 0.5
        }
        for _ in range(calls)
    ]
    return kinds, defaults, drawn


def handed(framework: str, drawn: Any) -> tuple[Any, Executor, list[tuple[dict[str, Any], Any]]]:
    """Return the schema of a tool, who hands over, and the arguments of each call with what the tool got, as JSON."""
    pytest.importorskip(PACKAGES[framework])
    kinds, defaults, calls = drawn
    refused = executors().Refused
    taken: list[tuple[dict[str, Any], Any]] = []
    try:
        schema, executor, hand = executors().FRAMEWORKS[framework](kinds, defaults)
    except refused:
        return None, "unknown", taken
    for args in calls:
        with suppress(refused):
            taken.append((args, executors().plain(hand(json.loads(json.dumps(args))))))
    return schema, executor, taken


def hold_what_a_tool_gets(framework: str, drawn: Any) -> int:
    """Assert that a rule which forbids any value that a tool gets stops the call; return how many calls it got."""
    schema, executor, taken = handed(framework, drawn)
    # No rule can name an infinity.
    got = [
        [(path, value) for path, value in leaves(one) if type(value) is not float or isfinite(value)]
        for _, one in taken
    ]
    forbidden = Forbidden(place for places in got for place in places)
    for (args, _), places in zip(taken, got, strict=True):
        passed = {json.dumps(place) for place in places} - forbidden.stopping(args, schema, executor)
        assert not passed, (json.dumps(args), schema, passed)
    return len(taken)


def hold_what_stays_text(framework: str, drawn: Any) -> int:
    """Assert that a rule which forbids what a text could be taken as lets it pass where the tool gets the text."""
    schema, executor, taken = handed(framework, drawn)
    texts = [
        [(name, text) for name, text in args.items() if drawn[0][name] is str and type(text) is str]
        for args, _ in taken
    ]
    assert all(one[name] == text for (_, one), places in zip(taken, texts, strict=True) for name, text in places)
    others = [[(name, other) for name, text in places for other in taken_otherwise(text)] for places in texts]
    forbidden = Forbidden(place for places in others for place in places)
    for (args, _), places in zip(taken, others, strict=True):
        stopped = {json.dumps(place) for place in places} & forbidden.stopping(args, schema, executor)
        assert not stopped, (json.dumps(args), schema, stopped)
    return sum(map(len, texts))


def taken_otherwise(text: str) -> Iterator[Any]:
    """Yield what an executor could take a text as."""
    for wanted in TYPES:
        other = taken_as(text, wanted)
        if not json_equal(other, text) and other == other:  # noqa: PLR0124  # NaN is no value to ask for
            yield other


@pytest.mark.long
@pytest.mark.parametrize("framework", PACKAGES)
@SEARCH
@given(drawn=called())
def test_a_call_whose_tool_gets_what_a_rule_forbids_does_not_run(framework: str, drawn: Any) -> None:
    hold_what_a_tool_gets(framework, drawn)


@pytest.mark.long
@pytest.mark.parametrize("framework", PACKAGES)
@SEARCH
@given(drawn=called())
def test_arguments_of_the_right_types_are_judged_as_they_are(framework: str, drawn: Any) -> None:
    hold_what_stays_text(framework, drawn)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("framework", PACKAGES)
def test_no_types_and_no_spelling_of_ten_thousand_calls_lead_past_a_rule(framework: str) -> None:
    tools = taken = texts = 0

    @LONG_SEARCH
    @given(drawn=called(MANY_CALLS))
    def search(drawn: Any) -> None:
        nonlocal tools, taken, texts
        tools += 1
        taken += hold_what_a_tool_gets(framework, drawn)
        texts += hold_what_stays_text(framework, drawn)

    search()
    _logger.info("%s: %d tools, %d calls that they took, %d texts that stayed text", framework, tools, taken, texts)
    assert taken >= TAKEN
    assert texts
