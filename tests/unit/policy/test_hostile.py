"""Files made to hurt are refused in bounded time, in plain words, and never with a traceback."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, ConfigDict

import stream_guard as sg
from stream_guard.errors import PolicyError
from stream_guard.policy.load import load_policy
from stream_guard.policy.message_parts import show
from stream_guard.policy.translation import MAX_PROBLEMS
from stream_guard.registry import Registry, build_registry

WORDS = """
id kind params when unless rules no_call must_followup tool trigger must path op value == any_of not model key session
apiVersion shadow.dev/v1alpha1 schema @x then block tool_classes sessions idle 5m _from _slot text pattern formula n
"""
words = st.sampled_from(WORDS.split())
anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5),
    max_leaves=25,
)
rules = st.fixed_dictionaries(
    {"kind": st.sampled_from(sorted(build_registry().kinds))},
    optional={
        "id": words | anything,
        "params": st.dictionaries(words, anything, max_size=4) | anything,
        "when": anything,
        "unless": anything,
        "key": st.lists(words, max_size=3) | anything,
        "scope": st.sampled_from(["trace", "session", "run"]) | anything,
        "cooldown": anything,
        "tags": anything,
    },
)
frames = anything | st.fixed_dictionaries(
    {"rules": st.lists(rules, max_size=4)},
    optional={"tool_classes": anything, "sessions": anything, "name": anything, "apiVersion": words},
)


@given(frames)
def test_no_data_raises_anything_but_a_policy_error(registry: Registry, data: Any) -> None:
    try:
        found = load_policy(json.dumps(data), registry, file="p.json").warnings
    except PolicyError as error:
        found = error.problems
        refused = True
    else:
        refused = False
    assert refused == any(not problem.warning for problem in found)
    assert all(problem.place.line >= 1 and problem.place.column >= 1 for problem in found)
    assert all(str(problem).isprintable() for problem in found)
    assert [problem.place for problem in found] == sorted(problem.place for problem in found)


def problems(registry: Registry, data: Any) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load_policy(data if isinstance(data, str) else json.dumps(data), registry, file="p")
    return [str(problem) for problem in caught.value.problems]


# The limits are below the smaller number; the larger one shows that time does not run away either.
MANY = pytest.mark.parametrize("count", [1_500, pytest.param(10_000, marks=pytest.mark.slow)])


@MANY
def test_thousands_of_rules_load(registry: Registry, count: int) -> None:
    many = [{"id": f"r{n}", "kind": "no_call", "params": {"tool": f"t{n}"}} for n in range(count)]
    assert len(load_policy(json.dumps({"rules": many}), registry).rules) == count


@MANY
def test_thousands_of_wrong_rules_are_listed_up_to_a_bound(registry: Registry, count: int) -> None:
    many = [{"id": f"r{n}", "kind": f"no_cal{n}", "params": {}} for n in range(count)]
    listed = problems(registry, {"rules": many})
    assert len(listed) == MAX_PROBLEMS + 1
    assert f"{count - MAX_PROBLEMS} more problems" in listed[-1]


def test_a_mapping_full_of_unknown_keys_is_listed_up_to_a_bound(registry: Registry) -> None:
    unknown = {f"k{n}": 1 for n in range(3 * MAX_PROBLEMS)}
    rule = {"id": "r", "kind": "no_call", "params": {"tool": "x"}}
    assert len(problems(registry, {"rules": [{**rule, **unknown}]})) == MAX_PROBLEMS + 1
    assert len(problems(registry, {"rules": [{**rule, "params": {"tool": "x", **unknown}}]})) == MAX_PROBLEMS + 1


def test_conditions_nested_to_the_limit_are_read(registry: Registry) -> None:
    condition: Any = {"path": "model", "op": "==", "value": "x"}
    for _ in range(55):
        condition = {"not": condition}
    rule = {"id": "r", "kind": "max_turns", "params": {"n": 1}, "when": condition}
    assert load_policy(json.dumps({"rules": [rule]}), registry).rules
    deeper = {"rules": [{**rule, "when": {"all_of": [{"not": {"not": {"not": {"not": condition}}}}]}}]}
    assert problems(registry, deeper) == [problem for problem in problems(registry, deeper) if "SG120" in problem]


def test_regular_expressions_that_would_explode_are_refused(registry: Registry) -> None:
    rule = {"id": "r", "kind": "forbidden_text", "params": {"pattern": "(a{1000}){1000}"}}
    (problem,) = problems(registry, {"rules": [rule]})
    assert "SG114" in problem


def test_control_characters_of_a_file_never_reach_the_terminal(registry: Registry) -> None:
    evil = "\x1b[2J\u202e\x07"
    rule = {
        "id": evil,
        "kind": evil,
        "params": {evil: evil},
        evil: 1,
        "key": evil,
        "when": [{"path": evil, "op": evil}],
    }
    for problem in problems(registry, {"rules": [rule], evil: 1, "tool_classes": {evil: [evil, "@" + evil]}}):
        assert problem.isprintable()


def explode(value: str) -> str:
    raise RuntimeError("boom")


class Fragile(sg.Params):
    """Parameters whose validator raises what it should not."""

    text: Annotated[str, AfterValidator(explode)] = ""


class RaisingValidator(sg.Rule[Fragile, sg.NoState]):
    """A kind that fails while its parameters are checked."""

    kind = "raising_validator"

    def on_turn(self, turn: sg.Turn, state: sg.NoState) -> sg.Hit | None:
        return None


class RaisingConstructor(sg.Rule[sg.Params, sg.NoState]):
    """A kind that fails while it is built."""

    kind = "raising_constructor"

    def __init__(self, params: sg.Params) -> None:
        raise RuntimeError("boom")


class Opaque:
    """A value that nobody can write down."""


class OpaqueParams(sg.Params):
    """Parameters that cannot be turned back into JSON."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: Opaque = Opaque()


class OpaqueRule(sg.Rule[OpaqueParams, sg.NoState]):
    """A kind with such parameters."""

    kind = "opaque"


class Pack:
    @sg.hookimpl
    def stream_guard_rules(self) -> list[sg.RuleType]:
        return [RaisingValidator, RaisingConstructor, OpaqueRule]


def test_a_kind_whose_parameters_cannot_be_written_down_still_has_a_version() -> None:
    assert load_policy("rules: [{id: a, kind: opaque}]", build_registry(extra=[Pack()])).version
    assert show(Opaque()) == "a value of type Opaque"


def test_a_kind_that_fails_is_a_problem_and_the_rest_is_still_checked() -> None:
    registry = build_registry(extra=[Pack()])
    text = (
        "rules:\n  - {id: a, kind: raising_validator, params: {text: x}}\n"
        "  - {id: b, kind: raising_constructor}\n  - {id: c, kind: nope}\n"
    )
    listed = problems(registry, text)
    assert [problem.rsplit("[", 1)[1] for problem in listed] == ["SG123]", "SG123]", "SG108]"]
    assert "RuntimeError" in listed[0]
