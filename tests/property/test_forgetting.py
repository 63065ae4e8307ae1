"""Under floods, evictions, restarts and several tenants, no limit of a rule that stops is passed.

An oracle that forgets nothing counts what was allowed. The guard has room for so little that it forgets all the time.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Final, TypeAlias
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from stream_guard_rules import arg_provenance, tool_guard

from stream_guard.guard.inline import Guard
from stream_guard.judge.identity import tenant_session
from stream_guard.judge.model import Action, ToolCall, ToolResult, UserMessage
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

IDLE: Final = 100.0
RULES: Final = {
    "session": "{kind: max_calls, params: {tool: pay, n: 3}}",
    "order": "{kind: max_calls, params: {tool: pay, n: 1}, key: [session, args.order]}",
    "user": "{kind: max_calls, params: {tool: pay, n: 3}, key: [labels.user]}",
    "run": "{kind: tool_guard, params: {when: {call_count_in_run_gt: {tool: pay, value: 1}}}}",
    "origin": "{kind: arg_provenance, params: {tool: pay, path: to, deny: {tools: fetch}}}",
}
LIMITS: Final = {"session": 3, "order": 1, "user": 3, "run": 1}
REGISTRY: Final = build_registry()
Step: TypeAlias = tuple[str, str, str, int]
"""What is done, in which session, of which tenant, and a number that says what with."""

steps: Final = st.tuples(
    st.sampled_from(["pay", "pay", "pay", "look", "fetch", "talk", "flood", "restart", "wait"]),
    st.sampled_from(["s1", "s1", "s2", "s3"]),
    st.sampled_from(["", "a"]),
    st.integers(0, 4),
)


def policy_of(rule: str) -> Policy:
    """Return a policy with one rule that stops, and one that only watches and takes room."""
    text = f"""
sessions: {{idle: {IDLE}}}
rules:
  - {{id: watch, kind: max_calls, params: {{tool: look, n: 1}}, key: [session, args.order]}}
  - {{id: {rule}, then: block, {RULES[rule][1:]}
"""
    return load_policy(text, REGISTRY, file="p.yaml")


POLICIES: Final = {rule: policy_of(rule) for rule in RULES}


class World:
    """A guard with hardly any room, and an oracle that knows everything."""

    def __init__(self, rule: str, *, by_tenant: bool, max_live: int, max_states: int) -> None:
        self.rule = rule
        self.policy = dataclasses.replace(POLICIES[rule], by_tenant=by_tenant)
        self.limits = SessionLimits(max_live=max_live, max_states=max_states, in_memory=2)
        self.store = MemoryStore()
        self.guard = Guard(self.policy, store=self.store, limits=self.limits, clock=lambda: self.now)
        self.by_tenant = by_tenant
        self.now = 1000.0
        self.told = 0
        self.allowed: Counter[tuple[str, ...]] = Counter()
        self.seen: dict[str, float] = {}  # when each key had its last event
        self.fetched: set[tuple[str, int]] = set()

    def take(self, step: Step) -> None:
        what, session, tenant, number = step
        self.now += 1
        if what == "restart":
            self.guard.commit()
            self.guard = Guard(self.policy, store=self.store, limits=self.limits, clock=lambda: self.now)
        elif what == "wait":
            self.now += IDLE * number / 4
        elif what == "flood":
            for place in range(number):
                self.tell(UserMessage(session_id=self.name(f"f{self.told}-{place}", tenant), text="x"), tenant)
                self.check(f"g{self.told}-{place}", tenant, number, "look")
        elif what == "talk":
            self.tell(UserMessage(session_id=self.name(session, tenant), text="go on"), tenant)
        elif what == "fetch":
            name = self.name(session, tenant)
            self.touch(name)
            self.tell(ToolResult(session_id=name, tool="fetch", status="ok", output=f"to X{number}Y9"), tenant)
            self.fetched.add((name, number))
        else:
            self.check(session, tenant, number, what)

    def name(self, session: str, tenant: str) -> str:
        return tenant_session(tenant, session) if self.by_tenant else session

    def tell(self, event: UserMessage | ToolResult, tenant: str) -> None:
        self.told += 1
        self.touch(event.session_id)
        stamped = {"event_id": f"e{self.told}", "time": self.now, "labels": self.labels(tenant, 0)}
        self.guard.observe(replace(event, **stamped))

    def labels(self, tenant: str, number: int) -> dict[str, str]:
        own = {"tenant": tenant} if self.by_tenant and tenant else {}
        return {"user": f"u{number % 2}", **own}

    def touch(self, key: str) -> None:
        """Begin a key anew after its idle time."""
        if self.now - self.seen.get(key, self.now) >= IDLE:
            for counted in [counted for counted in self.allowed if counted[1] == key]:
                del self.allowed[counted]
            self.fetched = {one for one in self.fetched if one[0] != key}
        self.seen[key] = self.now

    def check(self, session: str, tenant: str, number: int, tool: str) -> None:
        self.told += 1
        name, user = self.name(session, tenant), f"u{number % 2}@{tenant if self.by_tenant else ''}"
        self.touch(name)
        self.touch(user)
        call = ToolCall(
            session_id=name,
            event_id=f"e{self.told}",
            call_id=f"c{self.told}",
            time=self.now,
            run_id=f"r{number}",
            labels=self.labels(tenant, number),
            tool=tool,
            args={"order": f"o{number}", "to": f"X{number}Y9"},
        )
        if self.guard.check(call).action is not Action.ALLOW or tool != "pay":
            return
        keys = {"session": (name,), "order": (name, str(number)), "user": (user,), "run": (name, f"r{number}")}
        if self.rule == "origin":
            assert (name, number) not in self.fetched
        else:
            self.allowed[self.rule, *keys[self.rule]] += 1
            assert self.allowed[self.rule, *keys[self.rule]] <= LIMITS[self.rule]


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=2 * settings().max_examples)
@given(
    st.lists(steps, min_size=10, max_size=60),
    st.booleans(),
    st.integers(1, 9),
    st.sampled_from([1, 2, 3, 5, 1000]),
)
def test_no_flood_gets_more_allowed_than_an_oracle_that_forgets_nothing_would(
    rule: str, trace: list[Step], by_tenant: bool, max_live: int, max_states: int
) -> None:
    world = World(rule, by_tenant=by_tenant, max_live=max_live, max_states=max_states)
    with patch.object(tool_guard, "_MOST_RUNS", 2), patch.object(arg_provenance, "_MOST_FINGERPRINTS", 3):
        for step in trace:
            world.take(step)
