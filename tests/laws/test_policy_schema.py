"""The JSON Schema of policies says what the loader does: whatever loads is valid, and both refuse unknown keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stream_guard as sg
from stream_guard.errors import PolicyError
from stream_guard.policy.document import read_document
from stream_guard.policy.forms import policy_schema
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry

REGISTRY = build_registry()
SCHEMA = policy_schema(REGISTRY)
VALIDATOR = jsonschema_rs.Draft7Validator(SCHEMA)
EXAMPLES = [(name, example) for name, kind in REGISTRY.kinds.items() for example in kind.examples]


def loads(policy: Any) -> bool:
    try:
        load_policy(json.dumps(policy), REGISTRY)
    except PolicyError:
        return False
    return True


def test_the_schema_is_a_schema() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(SCHEMA)
    wanted = {part.split('"')[0] for part in text.split('"$ref": "#/$defs/')[1:]}
    assert wanted <= set(SCHEMA["$defs"])


@pytest.mark.parametrize("kind", sorted(REGISTRY.kinds))
def test_every_parameter_of_every_kind_is_described(kind: str) -> None:
    params = SCHEMA["$defs"][f"params.{kind}"]
    assert params["description"].endswith(".")
    assert params["additionalProperties"] is False
    missing = [name for name, described in params["properties"].items() if "description" not in described]
    assert missing == []


def test_every_key_of_a_rule_is_described() -> None:
    properties = SCHEMA["$defs"]["rule"]["properties"]
    assert [name for name, described in properties.items() if "description" not in described] == []


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "deploy" / "policies").glob("*.yaml")), ids=lambda p: p.name
)
def test_the_sample_policies_load_without_warnings_and_are_valid(file: Path) -> None:
    assert load_policy(file, REGISTRY).warnings == ()
    VALIDATOR.validate(read_document(file).data)


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=[f"{kind}: {example.claim}" for kind, example in EXAMPLES])
def test_the_examples_of_every_kind_load_and_are_valid(kind: str, example: sg.Example) -> None:
    policy = {"rules": [{"id": "r", "kind": kind, "params": dict(example.params)}]}
    assert loads(policy)
    VALIDATOR.validate(policy)


SPANS = st.sampled_from(
    [0, 1, 0.5, "5m", "90", "1.5h", "10 ms", "5 parsecs", "", " 5s", "5s ", "\u0665s", -1, True, None]
)
WORDS = st.sampled_from(
    ["a", "session", "agent", "args.x", "labels.y", "tool", "error", "high", "block", "trace", "run", ""]
)
LEAVES = st.fixed_dictionaries(
    {
        "path": st.sampled_from(["model", "request.x", "tool.name", "labels.z", "labelsz", "tool.args.n", "model."]),
        "op": st.sampled_from(["==", "in", ">", "exists", "matches", "=~"]),
    },
    optional={"value": st.sampled_from([1, "a", [1, "a"], None]), "x": st.just(1)},
)
CONDITIONS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["all_of", "any_of", "not"]), inner | st.lists(inner, max_size=2), max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def some_params(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Parameters of an example, with one key dropped, changed or added now and then."""
    kind, example = draw(st.sampled_from(EXAMPLES))
    params = dict(example.params)
    names = [*SCHEMA["$defs"][f"params.{kind}"]["properties"], "unknown"]
    change = draw(st.sampled_from(["nothing", "nothing", "drop", "set"]))
    if change == "drop":
        params.pop(draw(st.sampled_from(names)), None)
    elif change == "set":
        params[draw(st.sampled_from(names))] = draw(SPANS | WORDS | st.lists(WORDS, max_size=2) | CONDITIONS)
    return kind, params


@st.composite
def some_rules(draw: st.DrawFn) -> dict[str, Any]:
    kind, params = draw(some_params())
    extra = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "id": WORDS,
                "when": CONDITIONS,
                "unless": CONDITIONS,
                "scope": WORDS,
                "key": WORDS | st.lists(WORDS, max_size=2),
                "severity": WORDS,
                "then": WORDS,
                "reason": WORDS,
                "description": WORDS,
                "mode": st.sampled_from(["enforce", "shadow", ""]),
                "on_error": st.sampled_from(["open", "closed", 1]),
                "cooldown": SPANS,
                "for": SPANS,
                "tags": st.lists(WORDS, max_size=2),
                "tests": st.just([{}]) | WORDS,
            },
        )
    )
    chosen = draw(st.lists(st.sampled_from(sorted(extra)), max_size=2, unique=True)) if extra else []
    return {"kind": kind, "params": params, **{key: extra[key] for key in chosen}}


POLICIES = st.fixed_dictionaries(
    {"rules": st.lists(some_rules(), max_size=2)},
    optional={
        "name": WORDS,
        "version": st.sampled_from([1, 1.0, 2, "1"]),
        "sessions": st.fixed_dictionaries({}, optional={"idle": SPANS, "max_out_of_orderness": SPANS}),
        "tool_classes": st.dictionaries(WORDS, WORDS | st.lists(WORDS, max_size=2), max_size=2),
    },
)


@given(POLICIES)
def test_whatever_loads_is_valid(policy: dict[str, Any]) -> None:
    if loads(policy):
        VALIDATOR.validate(policy)


def test_the_generated_policies_are_of_both_sorts() -> None:
    found: set[bool] = set()

    @given(POLICIES)
    def collect(policy: dict[str, Any]) -> None:
        found.add(loads(policy))

    collect()
    assert found == {True, False}


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=[f"{kind}: {example.claim}" for kind, example in EXAMPLES])
def test_unknown_keys_are_refused_by_both(kind: str, example: sg.Example) -> None:
    rule: dict[str, Any] = {"id": "r", "kind": kind, "params": dict(example.params)}
    for policy in (
        {"rules": [rule], "unknown": 1},
        {"rules": [{**rule, "unknown": 1}]},
        {"rules": [{**rule, "params": {**example.params, "unknown": 1}}]},
        {"rules": [{**rule, "when": {"path": "model", "op": "exists", "unknown": 1}}]},
        {"rules": [rule], "sessions": {"unknown": 1}},
    ):
        assert not loads(policy)
        assert not VALIDATOR.is_valid(policy)


class Opaque:
    """A type that pydantic knows no schema for."""


class OpaqueParams(sg.Params):
    """Parameters with a type of their own."""

    model_config = {**sg.Params.model_config, "arbitrary_types_allowed": True}
    thing: Opaque | None = None


class OpaqueRule(sg.Rule[OpaqueParams, sg.NoState]):
    """A kind whose parameters cannot be described."""

    kind = "opaque"


class Pack:
    @sg.hookimpl
    def stream_guard_rules(self) -> list[sg.RuleType]:
        return [OpaqueRule]


def test_a_kind_that_cannot_be_described_does_not_take_the_others_with_it() -> None:
    registry: Registry = build_registry(extra=[Pack()])
    described = policy_schema(registry)
    assert described["$defs"]["params.opaque"]["type"] == "object"
    assert "params.no_call" in described["$defs"]
