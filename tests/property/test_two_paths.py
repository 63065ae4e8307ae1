"""Inline and follow-up: the same attempts, the same matches, whatever the rules; only windows wait for afterwards."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Action, Finding, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.storage.stores import MemoryStore
from tests.replaying import ReplayingGuard

REGISTRY = build_registry()
TOOLS = ("pay", "mail", "read")
PATHS = ("n", "to", "body.n", "list.0")
VALUES: tuple[Any, ...] = (0, 3, 3.5, "3", "a@x.org", None, True, [7], {"n": 5})

tools = st.sampled_from(TOOLS)
paths = st.sampled_from(PATHS)
numbers = st.sampled_from([0, 3, 4.5])
counts = st.fixed_dictionaries({"value": st.integers(0, 4)}, optional={"tool": tools})
windows = st.fixed_dictionaries(
    {"value": st.integers(0, 3), "windowSeconds": st.sampled_from([1, 5, 60])}, optional={"tool": tools}
)
leaves = st.one_of(
    st.lists(tools, min_size=1, max_size=2).map(lambda names: {"tool_name_in": names}),
    st.sampled_from(["^p", "a"]).map(lambda pattern: {"tool_name_regex": pattern}),
    st.builds(
        lambda name, path, value: {name: {"path": path, "value": value}},
        st.sampled_from(["arg_gt", "arg_lte"]),
        paths,
        numbers,
    ),
    st.builds(lambda path, value: {"arg_eq": {"path": path, "value": value}}, paths, st.sampled_from(VALUES)),
    paths.map(lambda path: {"arg_missing": {"path": path}}),
    paths.map(lambda path: {"arg_regex": {"path": path, "pattern": "x\\."}}),
    counts.map(lambda count: {"call_count_in_run_gt": count}),
    counts.map(lambda count: {"call_count_in_session_gt": count}),
    windows.map(lambda count: {"call_count_in_window_gt": count}),
    st.just({}),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda nodes: {"all_of": nodes}),
        st.lists(inner, max_size=3).map(lambda nodes: {"any_of": nodes}),
        inner.map(lambda node: {"not": node}),
    ),
    max_leaves=6,
)
actions = st.sampled_from(["allow", "pause", "block", "terminate_session"])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Up to three agents, one below the other, each with rules of its own and a list of tools."""
    agents: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 3))):
        rules = [
            {"id": f"r{number}-{position}", "when": draw(trees), "then": draw(actions)}
            for position in range(draw(st.integers(0, 3)))
        ]
        parent = draw(st.sampled_from([None, *(agent["id"] for agent in agents)]))
        operations = draw(st.lists(tools, unique=True, min_size=1))
        agents.append({"id": f"a{number}", "parent": parent, "operations": operations, "rules": rules})
    return load_policy(json.dumps({"agents": agents}), REGISTRY, file="drawn.json")


args = st.dictionaries(st.sampled_from(["n", "to", "body", "list"]), st.sampled_from(VALUES), max_size=3)
steps = st.lists(
    st.tuples(
        st.sampled_from(["s1", "s2"]),
        st.sampled_from(["r1", "r2"]),
        st.sampled_from(["a0", "a1", "a2"]),
        tools,
        args,
        st.sampled_from([0.0, 0.5, 1.0, 5.0, 30.0, 2000.0]),
    ),
    max_size=14,
)


def attempts(drawn: list[tuple[str, str, str, str, Any, float]]) -> list[ToolCall]:
    now, calls = 1_700_000_000.0, []
    for number, (session, run, agent, tool, given_args, step) in enumerate(drawn):
        now += step
        calls.append(
            ToolCall(
                session_id=session, event_id=f"e{number}", time=now, run_id=run, agent=agent, tool=tool, args=given_args
            )
        )
    return calls


def by_event(found: list[Finding]) -> dict[str, set[str]]:
    matched: defaultdict[str, set[str]] = defaultdict(set)
    for finding in found:
        matched[finding.event_id].add(finding.alert_id)
    return dict(matched)


def on_the_stream(policy: Policy, calls: list[ToolCall]) -> list[Finding]:
    found: list[Finding] = []
    tally = Counts()
    table = Judge(policy, mode="stream", store=MemoryStore(), counts=tally)
    for call in calls:
        found += table.feed(call).findings
        table.commit()
    return found


@given(policies(), steps)
def test_both_paths_match_the_same_and_only_windows_are_left_to_the_second(policy: Policy, drawn: Any) -> None:
    followup = evaluate(attempts(drawn), policy)
    assert by_event(on_the_stream(policy, attempts(drawn))) == by_event(followup)
    guard = ReplayingGuard(policy)
    then = {spec.id: spec.then or Action.ALLOW for spec in policy.rules}
    ended: set[str] = set()
    acted_on: list[Finding] = []
    deferred: list[Finding] = []
    for call in attempts(drawn):
        decision = guard.check(call)
        acted_on += decision.findings
        deferred += decision.followup
        asked = [finding.then for finding in decision.findings if finding.then is not None]
        # A rule that could not judge stops the attempt; it never ends a session.
        asked += [min(then[name], Action.BLOCK) for name in decision.rules.unevaluable]
        strictest = max(asked, default=Action.ALLOW)
        wanted = Action.TERMINATE_SESSION if call.session_id in ended else strictest
        assert decision.action is wanted
        if decision.session_ended:
            ended.add(call.session_id)
    assert by_event([*acted_on, *deferred]) == by_event(followup)
    assert by_event(acted_on) == by_event([finding for finding in followup if not finding.followup])
    counting = {spec.slot for spec in policy.rules if "call_count_in_window_gt" in json.dumps(spec.params)}
    assert {finding.slot for finding in deferred} <= counting
