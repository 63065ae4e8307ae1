"""Sessions that are closed for want of room: what rules that stop knew of them is doubted, and nobody else's goes."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.msgpack import encode

from stream_guard.guard.ended import EndedSessions
from stream_guard.guard.inline import Guard
from stream_guard.judge import forgotten
from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.forgotten import ForgottenSessions
from stream_guard.judge.identity import share_of, tenant_session
from stream_guard.judge.judge import Judge
from stream_guard.judge.kept import TenantShares
from stream_guard.judge.model import Action, Decision, Finding, SessionEnd, ToolCall, ToolResult, UserMessage
from stream_guard.judge.rule import Mode
from stream_guard.judge.spec import Policy
from stream_guard.judge.tracker import Judged
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

REGISTRY = build_registry()
IDLE = 1800.0
FEW = SessionLimits(max_live=10)


def policy_of(rule: str, *, by_tenant: bool = False) -> Policy:
    return dataclasses.replace(load_policy(f"rules: [{rule}]", REGISTRY, file="p.yaml"), by_tenant=by_tenant)


CAP = "{id: cap, kind: max_calls, params: {tool: mail, n: 3}, then: block}"
BY_USER = "{id: cap, kind: max_calls, params: {tool: mail, n: 3}, key: [labels.user], then: block}"
ASKED_BY = """{id: cap, kind: no_call, params: {tool: mail}, then: block,
  when: {path: user.text, op: contains, value: "no mails"}}"""
TO_ORDER = "{id: cap, kind: must_call_before, params: {first: ask, second: mail}, then: block}"

TAINTED = """{id: taint, kind: no_call, params: {tool: read}, set_labels: {tainted: "yes"}}, {id: cap, kind: no_call,
  params: {tool: mail}, then: block, when: {path: labels.tainted, op: "==", value: "yes"}}"""
FOR_LONG = "{id: cap, kind: no_call, params: {tool: mail}, for: 50s, then: block}"


class Desk:
    """A guard that is asked, told and restarted, and whose clock goes on by a second a question."""

    def __init__(self, policy: Policy, limits: SessionLimits = FEW) -> None:
        self.policy, self.limits, self.store = policy, limits, MemoryStore()
        self.now, self.asked = 1000.0, 0
        self.guard = Guard(policy, store=self.store, limits=limits, clock=lambda: self.now)

    def restart(self) -> None:
        self.guard.commit()
        self.guard = Guard(self.policy, store=self.store, limits=self.limits, clock=lambda: self.now)

    def may(self, session: str, tool: str = "mail", tenant: str = "", user: str = "u") -> bool:
        return self.ask(session, tool, tenant, user).action is Action.ALLOW

    def ask(self, session: str, tool: str = "mail", tenant: str = "", user: str = "u") -> Decision:
        self.asked += 1
        self.now += 1
        labels = {"user": user, **({"tenant": tenant} if tenant else {})}
        name = tenant_session(tenant, session) if self.policy.by_tenant else session
        call = ToolCall(session_id=name, event_id=f"e{self.asked}", time=self.now, tool=tool, labels=labels, args={})
        return self.guard.check(call)

    def flood(self, count: int, tenant: str = "", tool: str = "look") -> None:
        for number in range(count):
            self.may(f"flood{self.asked}-{number}", tool, tenant, user=f"x{self.asked}")

    def say(self, session: str, text: str) -> None:
        self.asked += 1
        self.now += 1
        self.guard.observe(UserMessage(session_id=session, event_id=f"e{self.asked}", time=self.now, text=text))


@pytest.mark.parametrize("used", [1, 3])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("flood", ["look", "mail"])
def test_a_limit_is_not_begun_anew_by_eviction(used: int, restart: bool, flood: str) -> None:
    desk = Desk(policy_of(CAP))
    assert [desk.may("victim") for _ in range(used)] == [True] * used
    desk.flood(30, tool=flood)
    if restart:
        desk.restart()
    decision = desk.ask("victim")
    assert decision.action is Action.BLOCK
    assert decision.rules.unevaluable == ("cap",)
    assert "forget" in decision.reason
    assert desk.may("victim", "look")  # nobody asks about it
    assert desk.may("honest")


def test_a_session_that_was_evicted_twice_is_still_doubted() -> None:
    desk = Desk(policy_of(CAP))
    desk.may("victim")
    for _ in range(3):
        desk.flood(30)
        assert not desk.may("victim")


def test_after_its_idle_time_an_evicted_session_begins_anew() -> None:
    desk = Desk(policy_of(CAP))
    desk.may("victim")
    desk.flood(30)
    desk.now += IDLE
    assert [desk.may("victim") for _ in range(4)] == [True, True, True, False]


def test_a_session_of_which_no_rule_that_stops_knows_anything_is_not_doubted() -> None:
    desk = Desk(policy_of(CAP))
    desk.may("victim", "look")
    desk.flood(30)
    assert desk.may("victim")
    watched = Desk(policy_of(CAP.replace(", then: block", "")))
    watched.may("victim")
    watched.flood(30)
    assert watched.ask("victim").rules.unevaluable == ()


def test_a_key_across_sessions_is_not_begun_anew_by_eviction() -> None:
    desk = Desk(policy_of(BY_USER))
    assert [desk.may(f"s{number}") for number in range(3)] == [True] * 3
    desk.flood(30, tool="mail")
    assert not desk.may("s9")
    assert desk.may("s9", user="new")


def test_a_window_of_a_key_is_not_begun_anew_by_eviction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgotten, "_FULL", 3)  # so that sketches whose ids are over are dropped meanwhile
    window = "{tool: mail, measure: count, over: 2, window_seconds: 7200}"
    by_user = f"{{id: cap, kind: max_aggregate, params: {window}, key: [labels.user], then: block}}"
    desk = Desk(policy_of(by_user))
    assert [desk.may(f"s{number}") for number in range(3)] == [True, True, False]
    desk.flood(20, tool="mail")
    desk.now += IDLE
    desk.flood(20, tool="mail")
    assert not desk.may("s9"), "the window is longer than the idle time"
    desk.now += 7200
    assert desk.may("s9")


def test_values_of_a_key_are_within_the_limit_however_few_sessions_bring_them() -> None:
    desk = Desk(policy_of(BY_USER))
    for number in range(100):
        desk.may("one", user=f"u{number}")
    assert desk.guard.counts.sessions <= FEW.max_live


def test_what_a_user_said_is_not_forgotten_by_eviction() -> None:
    desk = Desk(policy_of(ASKED_BY))
    desk.say("victim", "no mails today")
    assert not desk.may("victim")
    desk.flood(30)
    assert not desk.may("victim")
    desk.say("honest", "write to Ann")
    desk.flood(30)
    assert desk.may("honest")


def test_a_label_that_a_rule_has_set_is_not_forgotten_by_eviction() -> None:
    desk = Desk(policy_of(TAINTED))
    desk.may("victim", "read")
    assert not desk.may("victim")
    desk.flood(30)
    assert desk.ask("victim").rules.unevaluable == ("cap",)
    assert desk.may("victim", "look")
    assert desk.may("honest")


@pytest.mark.parametrize("key", ["", "key: [session, labels.user],"])
def test_since_when_a_rule_hits_is_not_forgotten_by_eviction(key: str) -> None:
    desk = Desk(policy_of(FOR_LONG.replace("for:", f"{key} for:")))
    assert desk.may("victim")
    desk.flood(30)
    assert desk.ask("victim").rules.unevaluable == ("cap",)
    assert desk.may("victim", "look")
    assert desk.may("honest")
    desk.now += 60
    decision = desk.ask("victim")
    assert (decision.action, decision.rules.unevaluable) == (Action.BLOCK, ()), "it has lasted since it was back"


@pytest.mark.parametrize("restart", [False, True])
def test_since_when_a_rule_hits_is_not_forgotten_for_want_of_room_for_keys(restart: bool) -> None:
    desk = Desk(policy_of(FOR_LONG.replace("for:", "key: [session, labels.user], for:")), SessionLimits(max_states=3))
    assert [desk.may("s", user=f"u{number}") for number in range(6)] == [True] * 6
    if restart:
        desk.restart()
    assert desk.ask("s", user="u0").rules.unevaluable == ("cap",)
    assert desk.may("s", user="new")


def test_a_rule_that_waits_for_something_stops_as_it_would() -> None:
    desk = Desk(policy_of(TO_ORDER))
    desk.may("victim", "ask")
    desk.flood(30)
    assert not desk.may("victim")
    assert desk.may("victim", "ask")
    assert desk.may("victim")  # what it waits for has come


def test_for_want_of_room_the_session_that_is_silent_for_longest_is_closed() -> None:
    owed = policy_of("{id: owed, kind: must_call, params: {tool: report}}")
    table = Judge(owed, SessionLimits(max_live=3), mode="stream")
    told = ["busy", "silent", "later", *["busy"] * 20, "new"]
    found: list[Finding] = []
    for number, session in enumerate(told):
        call = ToolCall(session_id=session, event_id=f"e{number}", time=1000.0 + number, tool="look")
        found += table.feed(call).findings
    assert [finding.session_id for finding in found] == ["silent"]


def test_a_tenants_flood_evicts_its_own_sessions_first() -> None:
    desk = Desk(policy_of(CAP, by_tenant=True))
    assert [desk.may(name, tenant="b") for name in ("v", "w", "v")] == [True] * 3
    desk.flood(100, "a")
    assert [desk.may(name, tenant="b") for name in ("v", "w", "v")] == [True, True, False]
    assert desk.may("new", tenant="b")


def test_no_tenant_gets_the_share_of_one_that_came_first() -> None:
    desk = Desk(policy_of(CAP, by_tenant=True))
    desk.flood(10, "a")
    for number in range(5):
        assert desk.may(f"s{number}", tenant="b")
    desk.flood(50, "a")
    assert all(desk.may(f"s{number}", tenant="b") for number in range(5))


def test_a_tenants_limit_by_user_is_its_own() -> None:
    desk = Desk(policy_of(BY_USER, by_tenant=True))
    assert [desk.may(f"k{number}", tenant="b") for number in range(4)] == [True, True, True, False]
    desk.flood(50, "a", "mail")
    assert not desk.may("k9", tenant="b")
    assert desk.may("k9", tenant="b", user="other")


def test_who_claims_a_tenant_in_its_id_only_has_no_share_of_it() -> None:
    shares = TenantShares()
    for number in range(3):
        name = f"b/{number}"
        shares.add(name, ToolCall(session_id=name, tool="x", labels={"tenant": "b"}))
    for number in range(5):
        name = f"x{number}/s"
        shares.add(name, ToolCall(session_id=name, tool="x"))
    assert list(shares.largest("b/9")) == [f"x{number}/s" for number in range(5)]
    for number in range(5):
        shares.remove(f"x{number}/s")
    assert list(shares.largest("b/9")) == ["b/0", "b/1", "b/2"]
    for number in range(3):
        shares.remove(f"b/{number}")
    assert list(shares.largest("b/9")) == []


def test_of_two_tenants_with_as_many_the_one_that_brings_more_gives_way() -> None:
    shares = TenantShares()
    for name in ("a/1", "b/1"):
        shares.add(name)
    assert list(shares.largest("a/2")) == ["a/1"]
    assert list(shares.largest("b/2")) == ["b/1"]


@pytest.mark.parametrize(
    ("key_id", "share"),
    [
        ("s", ""),
        ("/a/b", ""),
        ("a/b/c", "a"),
        ("a%2Fb/c", "a%2Fb"),
        ("\0labels.user\0u", ""),
        ("\0labels.user\0u\0a/b", "a%2Fb"),
    ],
)
def test_an_id_tells_its_tenant(key_id: str, share: str) -> None:
    assert share_of(key_id) == share


def test_forgotten_ids_come_back_from_the_store_and_go_when_they_have_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgotten, "_FULL", 10)
    store = MemoryStore()
    known = ForgottenSessions(store)
    for number in range(200):  # more than there are sketches for: the oldest become one
        known.add("a", f"s{number}", float(number))
    known.flush()
    again = ForgottenSessions(store)
    assert all(again.has("a", f"s{number}", 200.0, IDLE) for number in range(200))
    assert not any(again.has("b", f"s{number}", 200.0, IDLE) for number in range(200))
    assert sum(again.has("a", f"n{number}", 200.0, IDLE) for number in range(1000)) < 10
    assert len(list(store.deadlines())) == forgotten._MOST
    again.expired = 1000.0
    for number in range(11):
        again.add("a", f"t{number}", 2000.0)
    again.flush()
    assert not again.has("a", "s199", 200.0, IDLE)
    assert again.has("a", "t0", 2000.0, IDLE)
    assert len(list(store.deadlines())) <= 2


def test_tenants_beyond_those_with_a_series_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgotten, "_MOST_SERIES", 2)
    known = ForgottenSessions(MemoryStore())
    for tenant in "abcd":
        known.add(tenant, f"{tenant}/s", 1.0)
    assert all(known.has(tenant, f"{tenant}/s", 1.0, IDLE) for tenant in "abcd")
    assert not known.has("a", "a/t", 1.0, IDLE)


def test_a_session_without_times_is_never_taken_for_idle() -> None:
    known = ForgottenSessions(MemoryStore())
    known.add("", "s", float("-inf"))
    assert known.has("", "s", 1e9, IDLE)


def test_an_ended_session_stays_ended_however_many_ended_since() -> None:
    store = MemoryStore()
    ended = EndedSessions(store, Counts(), most=5)
    for number in range(100):
        ended.end(f"s{number}", "why")
    for known in (ended, EndedSessions(store, Counts(), most=5)):
        assert len(known) == 5
        assert all(known.reason(f"s{number}") for number in range(100))
        assert not any(known.reason(f"n{number}") for number in range(100))


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_on_a_stream_a_session_that_was_evicted_is_counted_as_not_judged(mode: Mode) -> None:
    counts = Counts()
    table = Judge(policy_of(CAP), FEW, mode=mode, counts=counts)
    found: list[Finding] = []

    def call(session: str, number: int) -> None:
        call = ToolCall(session_id=session, event_id=f"e{number}", time=1000.0 + number, tool="mail")
        found.extend(table.feed(call).findings)

    call("victim", 0)
    for number in range(30):
        call(f"s{number}", number + 1)
    assert not counts.unevaluable
    call("victim", 40)
    assert sum(counts.unevaluable.values()) == 1
    for number in range(41, 44):
        call("victim", number)
    assert [finding.rule_id for finding in found] == ["cap"]  # what was counted since still counts


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("others", "tool", "expected"), [(0, "", "hit"), (2, "fetch", "hit"), (2, "", "unsure"), (2, "look", "allowed")]
)
def test_a_result_of_a_call_that_was_forgotten_is_not_overlooked(
    others: int, tool: str, expected: str, restart: bool
) -> None:
    origin = "{id: cap, kind: arg_provenance, params: {tool: pay, path: to, deny: {tools: fetch}}, then: block}"
    desk = Desk(policy_of(origin), SessionLimits(max_open_calls=2))
    for number, name in enumerate(["fetch", *["look"] * others]):
        call = ToolCall(session_id="s", event_id=f"c{number}", call_id=f"c{number}", tool=name, args={})
        assert desk.guard.check(call).action is Action.ALLOW
    if restart:
        desk.restart()
    told = ToolResult(session_id="s", event_id="r", call_id="c0", tool=tool, status="ok", output="pay ZZ9999")
    desk.guard.observe(told)
    decision = desk.guard.check(ToolCall(session_id="s", event_id="p", tool="pay", args={"to": "ZZ9999"}))
    assert (decision.action is Action.ALLOW) is (expected == "allowed")
    assert (decision.rules.unevaluable == ("cap",)) is (expected == "unsure")


@pytest.mark.parametrize("part", ["the row", "a state"])
def test_what_a_damaged_row_knew_is_in_doubt_and_not_forgotten(part: str) -> None:
    desk = Desk(policy_of(CAP))
    assert [desk.may("s") for _ in range(3)] == [True] * 3
    desk.restart()
    row = desk.store.get("s") or b""
    damaged = row[:-1] if part == "the row" else row.replace(encode((3,)), encode(("three",)))
    assert damaged != row
    desk.store.put("s", damaged, None)
    desk.restart()
    assert not desk.may("s")
    assert desk.guard.counts.state_resets == 1
    desk.restart()
    assert not desk.may("s"), "and it stays so"
    assert desk.may("s", tool="look")
    assert desk.may("other")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_guard_drops_sessions_that_no_event_goes_on_with(*, restarts: bool) -> None:
    desk = Desk(policy_of(CAP), SessionLimits())
    for number in range(20):
        desk.may(f"old-{number}")
    desk.now += IDLE
    assert [desk.may("s") for _ in range(2)] == [True, True]
    desk.now += IDLE - 100
    if restarts:
        desk.restart()
    assert [desk.may("s") for _ in range(2)] == [True, False], "it was not silent for long, and is counted on"
    for _ in range(2):
        desk.now += IDLE - 100
        assert not desk.may("s")
    for number in range(1500):  # a guard looks for silent sessions once in a thousand events
        desk.may(f"new-{number % 3}")
    desk.guard.commit()
    rows = {row for row, _ in desk.store.deadlines()}
    assert rows == {"s", "new-0", "new-1", "new-2"}
    assert desk.guard.counts.closed["idle"] == 20
    assert desk.guard.counts.sessions == 4


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_what_an_evicted_session_held_back_evicts_no_session_of_the_event_that_came(mode: Mode) -> None:
    across = "{id: across, kind: no_call, params: {tool: nothing}, key: [labels.user]}"
    table = Judge(policy_of(f"{across}, {CAP.replace('n: 3', 'n: 1')}", by_tenant=True), FEW, mode=mode)
    if mode == "stream":
        table.clock = SharedClock(lambda: 1e9, quorum=3)

    def tell(tenant: str, session: str, time: float, tool: str = "look", **labels: str) -> Judged:
        name = tenant_session(tenant, session)
        return table.feed(ToolCall(session_id=name, time=time, tool=tool, labels={"tenant": tenant, **labels}))

    for number in range(FEW.max_live - 1):
        tell(f"t{number}", "a", 1000.0)
    tell("acme", "a", 1000.0)
    tell("acme", "a", 1000.0 + 2 * IDLE, user="x")  # waits for what shows that the pause was one
    found = [tell("acme", "s", 1000.0 + number, "mail").findings for number in range(2)]
    assert [[one.rule_id for one in made] for made in found] == [[], ["cap"]]
    assert table.counts.sessions <= FEW.max_live


@pytest.mark.parametrize("others", [10, 1100])
def test_a_guard_tells_what_a_silent_session_owes_however_much_others_say(others: int) -> None:
    desk = Desk(policy_of("{id: owed, kind: must_call, params: {tool: report}}"), SessionLimits())
    found = desk.guard.observe(ToolCall(session_id="s", event_id="e", tool="look"))
    for number in range(others):
        desk.now += 2.5 * IDLE / others
        found += desk.guard.observe(UserMessage(session_id="o", event_id=f"o{number}", text="hi"))
    found += desk.guard.observe(SessionEnd(session_id="s", event_id="end"))
    assert [(one.rule_id, one.time) for one in found if one.session_id == "s"] == [("owed", 1000.0 + IDLE)]
