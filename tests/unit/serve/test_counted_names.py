"""Under whose limits an event counts is said by the token and the policy, whatever its caller writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_guard.errors import SettingsError
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, SessionEnd, ToolCall
from stream_guard.judge.spec import Agents, Policy, PolicyAgent
from stream_guard.registry import build_registry
from stream_guard.serve.access import Identity, stamp
from stream_guard.serve.bodies import RequestRefused
from stream_guard.serve.tokens import TokenEntry, read_tokens, write_tokens
from stream_guard.settings import SessionLimits
from stream_guard.testing import rule_spec

KINDS = build_registry().kinds
ALLOW, BLOCK = Action.ALLOW, Action.BLOCK
AGENTS = Agents({"bot": PolicyAgent(), "mailer": PolicyAgent(parent="bot"), "stranger": PolicyAgent()})
BOT = Identity(name="bot", agents=("bot",), all_tenants=frozenset(("a", "b")))
CREW = Identity(name="crew", agents=("crew", "bot"))


def policy(key: tuple[str, ...] = ("agent",), agents: Agents | None = None, n: int = 2) -> Policy:
    rule = rule_spec(KINDS["max_calls"], {"tool": "ping", "n": n}, key=key, then=BLOCK)
    return Policy(rules=(rule,), version="v", agents=agents or Agents(), by_tenant=True)


def ping(number: int, **more: Any) -> ToolCall:
    return ToolCall(**{"session_id": f"s{number}", "event_id": f"e{number}", "tool": "ping", "args": {}, **more})


def answers(calls: Sequence[ToolCall], rules: Policy, who: Identity = BOT) -> list[Action]:
    guard = Guard(rules)
    return [guard.check(stamp(call, who, rules.agents)).action for call in calls]


@pytest.mark.parametrize(
    "said",
    [
        {"agent": "bot@{n}"},
        {"agent": "helper{n}", "agent_path": ("bot",)},
        {"agent": "helper{n}@1", "agent_path": ("bot@{n}",)},
        {"agent": "helper", "agent_path": ("root{n}", "bot", "mid{n}")},
        {"agent": "helper{n}", "agent_path": ("root{n}", "bot@{n}")},
        {"agent": "", "agent_path": ("root{n}",)},
        {"agent": "bot", "counts_as": "other{n}"},
        {"agent": "bot", "run_id": "run{n}", "part": "part{n}", "trace_id": "t{n}", "labels": {"user": "u{n}"}},
    ],
)
@pytest.mark.parametrize("agents", [Agents(), AGENTS])
def test_no_name_that_a_caller_gives_makes_a_limit_of_its_own(said: dict[str, Any], agents: Agents) -> None:
    def filled(value: Any, number: int) -> Any:
        if isinstance(value, tuple):
            return tuple(filled(one, number) for one in value)
        if isinstance(value, dict):
            return {key: filled(one, number) for key, one in value.items()}
        return value.replace("{n}", str(number))

    calls = [ping(number, **{key: filled(value, number) for key, value in said.items()}) for number in range(4)]
    assert answers(calls, policy(agents=agents)) == [ALLOW, ALLOW, BLOCK, BLOCK]


def test_agents_that_the_policy_declares_below_the_tokens_have_limits_of_their_own() -> None:
    calls = [ping(number, agent=agent) for number, agent in enumerate(["bot", "bot", "mailer", "mailer@2"])]
    rules = policy(agents=AGENTS)
    assert answers(calls, rules) == [ALLOW] * 4
    assert answers([*calls, ping(8, agent="mailer@3"), ping(9, agent="bot@3")], rules)[4:] == [BLOCK, BLOCK]


def test_each_agent_that_a_token_names_has_a_limit_of_its_own() -> None:
    calls = [ping(number, agent=agent) for number, agent in enumerate(["crew", "crew@1", "bot", "bot@1", "bot@2", ""])]
    assert answers(calls, policy(), CREW) == [ALLOW, ALLOW, ALLOW, ALLOW, BLOCK, BLOCK]


def test_an_agent_that_the_policy_declares_elsewhere_is_refused() -> None:
    for agent in ("stranger", "stranger@2"):
        with pytest.raises(RequestRefused, match="brings nothing of the agent"):
            stamp(ping(0, agent=agent, agent_path=("bot",)), BOT, AGENTS)


@pytest.mark.parametrize("key", [("agent",), ("tool",)])
def test_no_tenant_that_a_caller_names_splits_a_limit(key: tuple[str, ...]) -> None:
    calls = [ping(number, labels={"tenant": f"t{number}"}) for number in range(4)]
    assert answers(calls, policy(key)) == [ALLOW, ALLOW, BLOCK, BLOCK]


@pytest.mark.parametrize(("session", "tenant"), [("a/s", ""), ("x/s", "x"), ("a/s", "b")])
def test_a_session_named_as_one_of_a_tenant_takes_a_token_of_that_tenant(session: str, tenant: str) -> None:
    with pytest.raises(RequestRefused, match="belongs to a tenant"):
        stamp(ping(0, session_id=session, labels={"tenant": tenant} if tenant else {}), BOT, AGENTS)


def test_tenants_of_tokens_do_not_use_up_each_others_limits() -> None:
    rules = policy(("tool",))
    guard = Guard(rules)
    for tenant in ("a", "b"):
        who = Identity(name=f"bot-{tenant}", agents=(f"bot-{tenant}",), tenant=tenant)
        got = [guard.check(stamp(ping(number), who, rules.agents)).action for number in range(3)]
        assert got == [ALLOW, ALLOW, BLOCK]


def test_nobody_ends_a_session_under_a_name_that_is_not_the_tokens() -> None:
    rules = policy(("session",))
    for who, name, wanted in ((BOT, "orchestrator", BLOCK), (replaced(BOT, "orchestrator"), "", ALLOW)):
        guard = Guard(rules, limits=SessionLimits(end_from=("orchestrator",)))
        for number in range(2):
            guard.check(stamp(ping(number, session_id="s"), who, rules.agents))
        end = SessionEnd(session_id="s", event_id="end", agent=name, agent_path=("bot",) if name else ())
        guard.observe(stamp(end, who, rules.agents))
        assert guard.check(stamp(ping(2, session_id="s"), who, rules.agents)).action is wanted


def replaced(who: Identity, name: str) -> Identity:
    return Identity(name=name, agents=(name,), all_tenants=who.all_tenants)


def test_labels_of_a_token_are_on_its_events_and_others_in_their_place_are_refused() -> None:
    who = Identity(name="bot", agents=("bot",), labels={"user": "ann"})
    assert stamp(ping(0, labels={"env": "prod"}), who, AGENTS).labels == {"env": "prod", "user": "ann"}
    with pytest.raises(RequestRefused, match="has the label user"):
        stamp(ping(0, labels={"user": "bob"}), who, AGENTS)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"role": "reviewer", "labels": {"user": "ann"}}, "leave agents and labels out"),
        ({"role": "agent", "labels": {"tenant": "a"}}, "write tenant"),
    ],
)
def test_labels_of_tokens_are_for_agents_and_name_no_tenant(
    tmp_path: Path, entry: dict[str, Any], problem: str
) -> None:
    file = tmp_path / "tokens"
    write_tokens(file, [TokenEntry(name="x", sha256="0" * 64, **entry)])
    with pytest.raises(SettingsError, match=problem):
        read_tokens(file)


def test_without_tokens_the_agent_of_an_event_counts_and_nobody_says_otherwise() -> None:
    calls = [ping(number, agent="bot", counts_as=f"other{number}") for number in range(3)]
    assert answers(calls, replace(policy(), by_tenant=False), Identity()) == [ALLOW, ALLOW, BLOCK]
