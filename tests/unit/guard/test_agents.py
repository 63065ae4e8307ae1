"""Rules of agents: whom they govern, in which order, and what is wrong with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_guard.errors import PolicyError
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, Decision, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.convert import to_yaml
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()

TREE = """
agents:
  root: {operations: [pay, mail]}
  child@2: {parent: root, operations: [pay], execution_mode: sub_agent}
  other: {parent: root}
rules:
  - {id: of-child, agent: child@2, kind: tool_guard, params: {when: {tool_name_regex: .}}, then: pause}
  - {id: of-all, kind: no_call, params: {tool: drop}, then: block}
  - {id: of-root, agent: root, kind: no_call, params: {tool: "*"}, then: block}
"""


def load(text: str) -> Policy:
    return load_policy(text, REGISTRY, file="policy.yaml")


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(text)
    return [str(problem) for problem in caught.value.problems]


def ask(policy: Policy, agent: str, tool: str, path: tuple[str, ...] = ()) -> tuple[list[str], Decision]:
    decision = Guard(policy).check(ToolCall(session_id="s", tool=tool, agent=agent, agent_path=path, args={}))
    return [finding.rule_id for finding in decision.findings], decision


def test_rules_of_ancestors_come_first_whatever_the_order_in_the_file() -> None:
    matched, decision = ask(load(TREE), "child@2", "pay")
    assert matched == ["of-root", "of-child"]
    assert (decision.action, decision.checked) == (Action.BLOCK, True)


def test_a_sibling_is_not_governed() -> None:
    assert ask(load(TREE), "other", "pay")[0] == ["of-root"]


def test_a_tool_off_the_list_is_judged_by_rules_without_an_agent_only() -> None:
    matched, decision = ask(load(TREE), "child@2", "drop")
    assert (matched, decision.checked, decision.action) == (["of-all"], False, Action.BLOCK)


def test_an_agent_without_a_list_may_try_anything() -> None:
    assert ask(load(TREE), "other", "anything")[1].checked


def test_an_agent_is_known_without_its_version_but_not_under_another() -> None:
    assert ask(load(TREE), "root@7", "pay")[0] == ["of-root"]
    assert ask(load(TREE), "child@3", "pay")[1].checked is False


def test_ancestors_that_only_the_event_tells_of_govern_too() -> None:
    assert ask(load(TREE), "other", "pay", ("root", "child@2"))[0] == ["of-root", "of-child"]


def test_attempts_of_others_count_for_a_session_but_not_those_off_the_list() -> None:
    text = """
agents: {a: {operations: [x]}, b: {operations: [x]}}
rules:
  - {id: r, agent: a, kind: tool_guard, params: {when: {call_count_in_session_gt: {value: 1}}}, then: block}
"""
    guard = Guard(load(text))

    def check(agent: str, tool: str) -> Action:
        return guard.check(ToolCall(session_id="s", tool=tool, agent=agent)).action

    assert check("b", "off") is Action.ALLOW
    assert check("b", "x") is Action.ALLOW
    assert check("b", "x") is Action.ALLOW, "b is not governed by the rule of a"
    assert check("a", "x") is Action.BLOCK


def test_every_mistake_about_agents_is_listed_at_its_place() -> None:
    text = """
agents:
  a: {parent: rot}
  root: {execution_mode: request}
  b: {parent: c}
  c: {parent: b}
rules:
  - {id: x, agent: nobody, kind: no_call, params: {tool: t}}
  - {id: y, agent: root, kind: no_call, params: {tool: t}, then: pause}
"""
    listed = problems(text)
    assert [problem.split(":")[1] for problem in listed] == ["3", "5", "6", "8", "9"]
    assert all("[SG124]" in problem for problem in listed)
    assert 'did you mean "root"?' in listed[0]


def test_a_rule_is_not_blamed_for_agents_that_are_broken_elsewhere() -> None:
    listed = problems("agents: {a: {operation: [t]}}\nrules: [{id: x, agent: a, kind: no_call, params: {tool: t}}]")
    assert len(listed) == 1
    assert 'did you mean "operations"?' in listed[0]


def test_a_tool_on_no_list_is_a_warning() -> None:
    policy = load("agents: {a: {operations: [t]}}\nrules: [{id: x, agent: a, kind: no_call, params: {tool: [t, u]}}]")
    assert [(problem.code, problem.rule_id) for problem in policy.warnings] == [("SG153", "x")]


def test_agents_survive_conversion_and_decide_the_version() -> None:
    policy = load(TREE)
    again = load(to_yaml(policy))
    assert (again.version, again.agents) == (policy.version, policy.agents)
    assert load(TREE.replace("[pay, mail]", "[pay]")).version != policy.version


@pytest.mark.parametrize(
    "document",
    [
        [{"id": "r", "when": {"tool_name_in": ["t"]}, "then": "block"}],
        {"id": "r", "when": {"tool_name_in": ["t"]}, "then": "block"},
        {"rules": [{"id": "r", "when": {"tool_name_in": ["t"]}, "then": "block", "reason": None}]},
    ],
)
def test_a_rule_set_alone_governs_every_agent(document: Any) -> None:
    policy = load_policy(json.dumps(document), REGISTRY, file="rules.json")
    matched, decision = ask(policy, "whoever", "t")
    assert (matched, decision.action, decision.checked) == (["r"], Action.BLOCK, True)
