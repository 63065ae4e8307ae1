"""A rule that could never fire is refused when it is loaded; one that might is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import Field

import stream_guard as sg
from stream_guard.errors import PolicyError
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry

CALL = {"path": "tool.args.n", "op": ">", "value": 1}
RESULT = {"path": "tool.result.status", "op": "==", "value": "ok"}
TURN = {"path": "request.model", "op": "==", "value": "m"}
LABEL = {"path": "labels.env", "op": "==", "value": "prod"}
NO_CALL = {"kind": "no_call", "params": {"tool": "x"}}
MAX_TURNS = {"kind": "max_turns", "params": {"n": 3}}
CONSISTENT = {"kind": "must_remain_consistent", "params": {"path": "tool.args.amount"}}


def load(registry: Registry, rule: dict[str, Any]) -> None:
    load_policy(json.dumps({"rules": [{"id": "r", **rule}]}), registry)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({**MAX_TURNS, "when": CALL}, "SG113"),
        ({**MAX_TURNS, "when": [TURN, {"any_of": [CALL, RESULT]}]}, "SG113"),
        ({**NO_CALL, "when": RESULT}, "SG113"),
        ({**NO_CALL, "when": [CALL, RESULT]}, "SG113"),
        ({**NO_CALL, "when": {"any_of": []}}, "SG113"),
        ({**NO_CALL, "unless": []}, "SG113"),
        ({**NO_CALL, "unless": {"not": {"any_of": []}}}, "SG113"),
        ({**NO_CALL, "unless": {"any_of": []}}, "SG113"),
        ({**MAX_TURNS, "key": ["session", "args.account"]}, "SG117"),
        ({**MAX_TURNS, "key": ["session", "tool"]}, "SG117"),
        ({**NO_CALL, "key": ["session", "request.model"]}, "SG117"),
        ({**CONSISTENT, "params": {"path": "tool.arg.amount"}}, "SG112"),
        ({**CONSISTENT, "params": {"path": "amount"}}, "SG112"),
        ({**NO_CALL, "when": {"path": "tool.arguments.n", "op": "exists"}}, "SG112"),
        (
            {
                "kind": "must_followup",
                "params": {
                    "trigger": {"path": "labels.a.b", "op": "exists"},
                    "must": {"kind": "tool_call", "tool_name": "x"},
                },
            },
            "SG112",
        ),
        ({"kind": "must_be_grounded", "params": {"retrieval_path": "labels.a.b"}}, "SG112"),
    ],
)
def test_a_rule_that_could_never_fire_is_refused(registry: Registry, rule: dict[str, Any], code: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load(registry, rule)
    assert [problem.code for problem in caught.value.problems] == [code]


@pytest.mark.parametrize(
    "rule",
    [
        {**MAX_TURNS, "when": [TURN, LABEL]},
        {**MAX_TURNS, "when": {"any_of": [CALL, TURN]}},
        {**MAX_TURNS, "when": {"not": CALL}},
        {**MAX_TURNS, "key": ["session", "request.model"]},
        {**MAX_TURNS, "when": []},
        {**NO_CALL, "when": [CALL, TURN, LABEL, {"path": "user.text", "op": "contains", "value": "x"}]},
        {**NO_CALL, "key": ["session", "args.account", "tool", "run", "agent", "labels.tenant"]},
        {**NO_CALL, "key": ["labels.tenant"]},
        {**NO_CALL, "scope": "run", "key": ["session", "tool"]},
        CONSISTENT,
        {**CONSISTENT, "params": {"path": "request.metadata.case.id"}},
    ],
)
def test_a_rule_that_might_fire_is_loaded(registry: Registry, rule: dict[str, Any]) -> None:
    load(registry, rule)


class Watched(sg.Params):
    """Parameters of a stranger's kind."""

    at: sg.Path = Field(alias="where")


class Watching(sg.Rule[Watched, sg.NoState]):
    """A stranger's kind that asks for a path and does not check it any further."""

    kind = "watching"


class Pack:
    @sg.hookimpl
    def stream_guard_rules(self) -> list[sg.RuleType]:
        return [Watching]


def test_the_paths_of_strangers_kinds_are_checked_too() -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy("rules: [{id: a, kind: watching, params: {where: tool.arg.x}}]", build_registry(extra=[Pack()]))
    (problem,) = caught.value.problems
    assert (problem.place.column, problem.code) == (49, "SG112")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("response.output_text", 'write "response.text"'),
        ("response.message.content", 'write "response.text"'),
        ("response.tool_calls", 'write "tool.name"'),
        ("response.finish_reason", 'write "stop_reason"'),
        ("response.contents", 'did you mean "response.content"'),
        ("response.usage.prompt_tokens", 'write "response.usage.input_tokens"'),
        ("response.usage.total_tokens", "response.usage has only response.usage.input_tokens"),
        ("response.text.0", "response.text has nothing below it"),
        ("response.nonsense", "response has only response.content, response.text"),
    ],
)
def test_a_path_that_no_response_has_is_refused_with_what_there_is(registry: Registry, path: str, hint: str) -> None:
    condition = {"path": path, "op": "exists"}
    aggregate = {"of": "turn", "measure": "sum", "over": 1, "path": path}
    for rule in ({**MAX_TURNS, "when": condition}, {"kind": "max_aggregate", "params": aggregate}):
        with pytest.raises(PolicyError) as caught:
            load(registry, rule)
        assert hint in str(caught.value)


@pytest.mark.parametrize(
    "path",
    ["response", "response.text", "response.content", "response.content.0.text", "response.metadata.anything.at.all"],
)
def test_paths_that_a_response_has_are_taken(registry: Registry, path: str) -> None:
    load(registry, {**MAX_TURNS, "when": {"path": path, "op": "exists"}})


@pytest.mark.parametrize("key", [["all", "agent"], ["session", "all"], ["all", "all"]])
def test_everything_together_stands_alone(registry: Registry, key: list[str]) -> None:
    with pytest.raises(PolicyError, match="stands alone"):
        load(registry, {**NO_CALL, "key": key})


@pytest.mark.parametrize("scope", ["part", "run"])
def test_everything_together_has_no_scope_inside_a_session(registry: Registry, scope: str) -> None:
    with pytest.raises(PolicyError, match="SG117"):
        load(registry, {**NO_CALL, "key": "all", "scope": scope})
