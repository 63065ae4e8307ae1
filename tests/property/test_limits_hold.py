"""No order of questions, ids, stamps, names, tenants, evictions and restarts runs more calls than a limit allows.

Beside the guard stands a book of what ran. A caller runs a call when it is allowed, and runs it once more for each yes
that is not the same answer given again. What a caller writes into its events is drawn freely; who it is, is not.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.history.database import open_database
from stream_guard.judge.limits import FRESH
from stream_guard.judge.model import Action, Event, GateDecision, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.serve.access import Identity, stamp
from stream_guard.serve.bodies import RequestRefused
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

IDLE: Final = 1800.0
WINDOW: Final = 60.0
MOST: Final = 2  # of each limit
BUDGET: Final = 100
RULES: Final[list[dict[str, Any]]] = [
    {"id": "session", "kind": "max_calls", "params": {"tool": "mail", "n": MOST}},
    {"id": "agent", "kind": "max_calls", "params": {"tool": "post", "n": MOST}, "key": ["agent"]},
    {"id": "rate", "kind": "max_aggregate", "params": {"tool": "ping", "window_seconds": WINDOW, "over": MOST}}
    | {"key": ["agent"]},
    {"id": "budget", "kind": "max_aggregate", "key": ["agent"]}
    | {"params": {"tool": "pay", "measure": "sum", "path": "tool.args.amount", "over": BUDGET}},
    {"id": "burst", "kind": "tool_guard"}
    | {
        "params": {
            "when": {"call_count_in_window_gt": {"tool": "push", "value": MOST, "windowSeconds": WINDOW}},
            "enforce_window": "inline",
        }
    },
]
POLICY: Final = dataclasses.replace(
    load_policy(
        json.dumps(
            {
                "agents": {"bot": {}, "mailer": {"parent": "bot"}},
                "rules": [{"then": "block", **rule} for rule in RULES],
            }
        ),
        build_registry(),
        file="p.json",
    ),
    by_tenant=True,
)
CALLERS: Final = [
    Identity(name="bot", agents=("bot",), tenant="a", all_tenants=frozenset("ab")),
    Identity(name="bot", agents=("bot",), tenant="b", all_tenants=frozenset("ab")),
    Identity(name="bot", agents=("bot",), all_tenants=frozenset("ab")),
    Identity(name="crew", agents=("crew", "bot"), all_tenants=frozenset("ab")),
]
ARGS: Final = {"pay": {"amount": 40}}
TOOLS: Final = ("mail", "post", "ping", "pay", "push")
NAMES: Final[list[dict[str, Any]]] = [
    {},
    {"agent": "bot"},
    {"agent": "bot@1"},
    {"agent": "bot@2"},
    {"agent": "mailer"},
    {"agent": "mailer@7"},
    {"agent": "helper1", "agent_path": ("bot",)},
    {"agent": "helper2", "agent_path": ("root9", "bot@3")},
    {"agent": "crew"},
]
WORDS: Final[list[dict[str, Any]]] = [
    {},
    {"run_id": "r1", "part": "p1"},
    {"run_id": "r2", "part": "p2", "labels": {"user": "u2", "tenant": "t2"}},
    {"labels": {"tenant": "t3"}, "counts_as": "somebody"},
    {"trace_id": "t", "captured": True, "labels": {"env": "test"}},
]
STAMPS: Final = [None, 0.0, 1_700_000_000.0, 1_700_000_061.0, 1_700_003_600.0, 4_102_444_800.0, 2e11]

Key: TypeAlias = tuple[str, ...]


class Run(NamedTuple):
    """A call that ran."""

    at: float
    amount: int


class Said(NamedTuple):
    """A question as its caller writes it."""

    who: Identity
    session: str
    call_id: str
    event_id: str
    tool: str
    name: dict[str, Any]
    words: dict[str, Any]


questions = st.builds(
    Said,
    st.sampled_from(CALLERS),
    st.sampled_from(["s1", "s2"]),
    st.sampled_from(["", "c1", "c1", "c2"]),
    st.sampled_from(["", "e1", "e2", "e3", "e4"]),
    st.sampled_from(TOOLS),
    st.sampled_from(NAMES),
    st.sampled_from(WORDS),
)
stamps = st.sampled_from(STAMPS)


def counted_as(said: Said) -> str:
    """Return whom a caller counts as, by what tokens and the policy above say."""
    name = said.name.get("agent", "").partition("@")[0]
    if name == "mailer":
        return "mailer"
    if name.startswith("helper"):
        return "bot"
    return name or said.who.name


class LimitsHold(RuleBasedStateMachine):
    """A gate, its callers, and the book of what ran."""

    limits = SessionLimits(max_live=8, in_memory=2, max_open_calls=3, duplicate_window=6)

    @initialize(with_history=st.booleans())
    def begin(self, with_history: bool) -> None:
        self.folder = TemporaryDirectory(prefix="limits-")
        self.database = open_database(str(Path(self.folder.name) / "history.db")) if with_history else None
        self.store, self.now = MemoryStore(), 1_767_600_000.0
        self.ran: defaultdict[Key, list[Run]] = defaultdict(list)
        self.seen: dict[Key, float] = {}  # when a session, or a value of a key, was last spoken of
        self.given: dict[tuple[Any, ...], float] = {}  # questions that got a yes, and when
        self.flooded = 0
        self._open()

    def _open(self) -> None:
        self.guard = Guard(POLICY, store=self.store, limits=self.limits, clock=lambda: self.now)
        self.gate = None
        if self.database is not None:
            self.gate = Gate(POLICY, self.database, guard=self.guard, clock=lambda: self.now)

    def teardown(self) -> None:
        if getattr(self, "database", None) is not None:
            self.database.close()  # type: ignore[union-attr]  # there is one
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def _keys(self, said: Said) -> list[Key]:
        """Return the keys that limits go by, for a call of this caller."""
        session = (said.who.tenant, said.session)
        return [("session", *session), ("agent", said.who.tenant, counted_as(said))]

    def _touch(self, said: Said) -> None:
        """Begin keys anew that nobody spoke of for the idle time."""
        for key in self._keys(said):
            if self.now - self.seen.get(key, self.now) >= IDLE:
                for one in [one for one in self.ran if one[1:] == key]:
                    del self.ran[one]
            self.seen[key] = self.now

    @rule(said=questions, time=stamps)
    def ask(self, said: Said, time: float | None) -> None:
        args = ARGS.get(said.tool, {})
        call = ToolCall(
            session_id=said.session,
            call_id=said.call_id,
            event_id=said.event_id,
            tool=said.tool,
            args=args,
            time=time,
            **said.name,
            **said.words,
        )
        try:
            brought = stamp(call, said.who, POLICY.agents)
        except RequestRefused:
            return  # it is not this caller's to bring
        self._touch(said)
        if (self.gate or self.guard).check(brought).action is not Action.ALLOW:
            return
        exactly = (said.who.tenant, said.session, said.call_id, said.event_id, said.tool, said.name.get("agent", ""))
        if said.event_id and self.now - self.given.get(exactly, -1e18) < FRESH:
            return  # the answer was lost: the caller runs the call once
        self.given[exactly] = self.now
        self._run(said, int(args.get("amount", 0)))

    def _run(self, said: Said, amount: int) -> None:
        of_session, of_agent = self._keys(said)
        key = of_session if said.tool in ("mail", "push") else of_agent
        ran = self.ran[(said.tool, *key)]
        ran.append(Run(self.now, amount))
        if said.tool in ("ping", "push"):
            assert sum(self.now - one.at < WINDOW for one in ran) <= MOST, (said, ran)
        elif said.tool == "pay":
            assert sum(one.amount for one in ran) <= BUDGET, (said, ran)
        else:
            assert len(ran) <= MOST, (said, ran)

    @rule(said=questions, time=stamps, kind=st.sampled_from(["call", "turn", "result", "refusal", "end", "user"]))
    def tell(self, said: Said, time: float | None, kind: str) -> None:
        """Tell the gate of something that happened, truly or not."""
        header = {"session_id": said.session, "time": time, **said.name, **said.words}
        args = ARGS.get(said.tool, {})
        block = {"type": "tool_use", "id": said.call_id, "name": said.tool, "input": args}
        event: Event
        if kind == "call":
            event = ToolCall(**header, event_id=said.event_id, call_id=said.call_id, tool=said.tool, args=args)
        elif kind == "turn":
            event = Turn(**header, response={"content": [block], "stop_reason": "tool_use"})
        elif kind == "result":
            event = ToolResult(**header, call_id=said.call_id, tool=said.tool)
            self.given = {one: at for one, at in self.given.items() if one[:3] != (said.who.tenant, *said[1:3])}
        elif kind == "refusal":
            event = GateDecision(**header, call_id=said.call_id, tool=said.tool, action="block")
        elif kind == "end":
            event = SessionEnd(**header)
        else:
            event = UserMessage(**header, text="go on")
        try:
            brought = stamp(event, said.who, POLICY.agents)
        except RequestRefused:
            return
        self._touch(said)
        (self.gate or self.guard).observe(brought)

    @rule(count=st.integers(1, 12), who=st.sampled_from(CALLERS))
    def flood(self, count: int, who: Identity) -> None:
        """Open many sessions, so that others lose their place."""
        for _ in range(count):
            self.flooded += 1
            self.guard.observe(stamp(UserMessage(session_id=f"f{self.flooded}", text="x"), who, POLICY.agents))

    @rule()
    def restart(self) -> None:
        self.guard.commit()
        self._open()

    @rule(seconds=st.sampled_from([0.5, 5.0, 25.0, 61.0, 700.0]))
    def later(self, seconds: float) -> None:
        self.now += seconds


def search(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        LimitsHold, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def test_no_order_of_what_callers_write_runs_more_calls_than_a_limit_allows() -> None:
    search(2 * settings().max_examples, 30)


@pytest.mark.slow
def test_no_order_of_what_callers_write_runs_more_calls_than_a_limit_allows_in_a_long_search() -> None:
    search(2000, 50)


def test_an_honest_caller_gets_all_that_a_limit_allows() -> None:
    machine = LimitsHold()
    machine.begin(with_history=False)
    for tool in TOOLS:
        for number in range(MOST):
            machine.ask(Said(CALLERS[0], "s1", f"c{number}", f"{tool}{number}", tool, {}, {}), None)
    machine.teardown()
    assert sorted(len(ran) for ran in machine.ran.values()) == [MOST] * len(TOOLS)
