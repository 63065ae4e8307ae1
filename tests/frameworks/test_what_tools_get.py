"""A rule that stops judges what the tool gets, whatever its types and however a model spells the arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_guard.guard.inline import Guard
from stream_guard.integrations.attempts import as_handed_over
from stream_guard.language.executors import Type, taken_as
from stream_guard.language.paths import json_equal
from stream_guard.language.tool_schemas import Executor
from stream_guard.model import Action, ToolCall
from stream_guard.policy.spec import Policy
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS

PACKAGES = {"mcp": "mcp", "openai-agents": "agents", "openai-agents-strict": "agents", "langchain": "langchain"}
CALLS = 8  # of one tool
FEW, MANY = 15, 5000  # tools: in every run, and in the slow one
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


def forbids(path: str, value: Any) -> Policy:
    """Return a policy that stops a call with this value at the path."""
    when: dict[str, Any] = {"arg_eq": {"path": path, "value": value}}
    if type(value) is int or type(value) is float:
        when = {"all_of": [{"arg_gte": {"path": path, "value": value}}, {"arg_lte": {"path": path, "value": value}}]}
    rule = rule_spec(KINDS["tool_guard"], {"when": when}, then=Action.BLOCK)
    return Policy(rules=(rule,), version="v1")


def is_stopped(policy: Policy, args: Any, schema: Any, executor: Executor) -> bool:
    value, handed = as_handed_over(args, schema, executor)
    call = ToolCall(session_id="s", tool="tool", call_id="c", args=value, handed=handed)
    return Guard(policy).check(call).action is not Action.ALLOW


@st.composite
def called(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Draw the types of a tool's arguments, defaults of some, and the arguments of calls."""
    strategies = executors()
    kinds = draw(st.dictionaries(st.sampled_from(strategies.NAMES), strategies.TYPES, min_size=1, max_size=3))
    with_default = draw(st.sets(st.sampled_from(sorted(kinds)), max_size=len(kinds) - 1))
    defaults = {name: DEFAULTS[kinds[name]] for name in with_default if kinds[name] in DEFAULTS}
    needed = {name: strategies.fitting(kind) for name, kind in kinds.items() if name not in defaults}
    optional = {name: strategies.fitting(kinds[name]) for name in defaults}
    calls = draw(st.lists(st.fixed_dictionaries(needed, optional=optional), min_size=CALLS, max_size=CALLS))
    return kinds, defaults, calls


def handed(framework: str, drawn: Any) -> Iterator[tuple[Any, Executor, dict[str, Any], Any]]:
    """Yield the schema of a tool, who hands over, the arguments of a call, and what the tool got of them, as JSON."""
    pytest.importorskip(PACKAGES[framework])
    kinds, defaults, calls = drawn
    refused = executors().Refused
    try:
        schema, executor, hand = executors().FRAMEWORKS[framework](kinds, defaults)
    except refused:
        return
    for args in calls:
        try:
            got = hand(json.loads(json.dumps(args)))
        except refused:
            continue
        yield schema, executor, args, executors().plain(got)


def hold_what_a_tool_gets(framework: str, drawn: Any) -> int:
    """Assert that a rule which forbids any value that a tool gets stops the call; return how many calls it got."""
    taken = 0
    for schema, executor, args, got in handed(framework, drawn):
        taken += 1
        for path, value in leaves(got):
            if type(value) is float and not isfinite(value):  # no rule can name them
                continue
            shown = json.dumps(args), schema, path, value
            assert is_stopped(forbids(path, value), args, schema, executor), shown
    return taken


def hold_what_stays_text(framework: str, drawn: Any) -> int:
    """Assert that a rule which forbids what a text could be taken as lets it pass where the tool gets the text."""
    taken = 0
    for schema, executor, args, got in handed(framework, drawn):
        for name, text in args.items():
            if drawn[0][name] is not str or type(text) is not str:
                continue
            taken += 1
            assert got[name] == text
            for wanted in TYPES:
                other = taken_as(text, wanted)
                if not json_equal(other, text) and other == other:  # noqa: PLR0124  # NaN is no value to ask for
                    assert not is_stopped(forbids(name, other), args, schema, executor), (args, schema, name, other)
    return taken


@pytest.mark.parametrize("framework", PACKAGES)
@SEARCH
@given(drawn=called())
def test_a_call_whose_tool_gets_what_a_rule_forbids_does_not_run(framework: str, drawn: Any) -> None:
    hold_what_a_tool_gets(framework, drawn)


@pytest.mark.parametrize("framework", PACKAGES)
@SEARCH
@given(drawn=called())
def test_arguments_of_the_right_types_are_judged_as_they_are(framework: str, drawn: Any) -> None:
    hold_what_stays_text(framework, drawn)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("hold", [hold_what_a_tool_gets, hold_what_stays_text])
@pytest.mark.parametrize("framework", PACKAGES)
@LONG_SEARCH
@given(drawn=called())
def test_no_types_and_no_spelling_lead_past_a_rule(hold: Any, framework: str, drawn: Any) -> None:
    hold(framework, drawn)
