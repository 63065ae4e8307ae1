"""A search for sessions that the product judges otherwise than the reference; ``python -m tests.reference.search``.

Policies and events are drawn from a seed. A difference is made small by leaving out events, restarts and rules.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import pairwise
from math import inf
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

import stream_guard as sg
from stream_guard.errors import PolicyError
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from tests.reference.product import Mode, Product
from tests.reference.reference import Attempt, Life, Reference, Slot

IDLE = 1800.0
FAR = 10 * 365 * 86400.0
TOOLS = ("look", "send", "book")
SIGNS = ("/", ",", "\0", "\x1f")


@dataclass(frozen=True)
class Case:
    """What is run on both sides."""

    rules: tuple[dict[str, Any], ...]
    events: tuple[Event, ...]
    mode: Mode = "batch"
    restarts: frozenset[int] = frozenset()  # numbers of events after which the product commits and begins anew


# ---- what is drawn


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"d": value}
    return value


ARGS: dict[str, list[Any]] = {
    "plain": [{"x": "one"}, {"x": "two"}, {"x": "one", "y": 3}, {}, {"x": ""}],
    "numbers": [{"x": 1}, {"x": 1.0}, {"x": True}, {"x": 2}, {"x": None}, {"x": "1"}, {"x": [1.0, "1"]}],
    **{
        f"joined by {ord(sign)}": [{"r": f"acme{sign}web", "p": "main"}, {"r": "acme", "p": f"web{sign}main"}]
        for sign in SIGNS
    },
    "2**70": [{"x": 2**70}, {"x": 2**70 + 1}, {"x": -(2**70)}],
    "lone surrogates": [{"x": "\ud800"}, {"x": "a\udfff"}, {"\ud800": "one"}, {"x": ["\ud800"]}],
    "NaN": [{"y": float("nan")}, {"y": float("inf"), "x": "one"}],
    "depth": [{"y": deep(190)}, {"x": "one", "y": deep(180)}],
    "a list where an object was": [{"items": ["a", "b"]}, {"items": {"0": "a"}}, {"items": ["c"]}],
}
CONDITIONS: list[Any] = [
    {"path": "labels.tier", "op": "==", "value": "gold"},
    {"not": {"path": "labels.tier", "op": "==", "value": "gold"}},
    {"path": "tool.args.x", "op": "==", "value": 1},
    {"path": "tool.args.x", "op": "exists", "value": False},
    {"not": {"path": "tool.name", "op": "==", "value": "look"}},
    {"path": "response.stop_reason", "op": "==", "value": "end_turn"},
    {"path": "request.params.amount", "op": "==", "value": 5},
    {"path": "user.text", "op": "==", "value": "please"},
    {"not": {"path": "user.text", "op": "==", "value": "please"}},
    [{"path": "labels.tier", "op": "exists", "value": True}, {"path": "agent", "op": "==", "value": "ann"}],
    [{"not": {"path": "request.model", "op": "==", "value": "m2"}}, {"path": "agent", "op": "==", "value": "bob"}],
]
KINDS: list[tuple[str, list[dict[str, Any]]]] = [
    ("no_call", [{"tool": "send"}, {"tool": "*"}]),
    ("max_calls", [{"tool": "send", "n": 1}, {"n": 2}, {"tool": "look|send", "n": 1}]),
    (
        "must_call_before",
        [
            {"first": "look", "second": "send"},
            {"first": "look", "second": "send", "same_arg": "x"},
            {"first": "look", "second": "send", "first_must_succeed": True},
            {"first": "look", "second": "send", "within_seconds": 60},
            {"first": "look", "second": "send", "if_first_absent": "ignore"},
            {"first": "look", "second": "send", "reset_on": "book"},
        ],
    ),
    (
        "must_call_after",
        [
            {"first": "send", "then": "look", "within_seconds": 60},
            {"first": "send", "then": "look", "within_seconds": 600, "same_arg": "x"},
            {"first": "send", "then": "look", "within_seconds": IDLE},
            {"first": "send", "then": "look", "within_seconds": 4000},
        ],
    ),
    ("must_call_once", [{"tool": "send"}, {"tool": "book"}]),
    (
        "must_followup",
        [
            {"trigger": [], "must": {"kind": "text_includes", "text": "done"}, "within_turns": 2},
            {
                "trigger": {"path": "response.content", "op": "contains", "value": "look"},
                "must": {"kind": "tool_call", "tool_name": "send"},
                "within_turns": 3,
                "within_seconds": 600,
            },
        ],
    ),
    (
        "forbidden_text",
        [
            {"text": "done"},
            {"text": "please", "where": "user"},
            {"text": "one", "where": "tool_args"},
            {"text": "bad", "where": "tool_result", "tool": "send"},
        ],
    ),
    ("max_turns", [{"n": 1}, {"n": 2}]),
    (
        "must_remain_consistent",
        [{"path": "tool.args.x"}, {"path": "request.params.amount"}, {"path": "tool.args.y"}],
    ),
    ("no_repeated_calls", [{"times": 2}, {"times": 2, "compare": "tool", "again": "each", "max_period": 2}]),
    (
        "max_aggregate",
        [
            {"over": 1, "window_seconds": 600},
            {"over": 1, "measure": "distinct", "path": "tool.args.x"},
            {"of": "turn", "over": 1, "window_seconds": 60},
        ],
    ),
    ("max_failed_retries", [{"n": 1, "within_seconds": 600}]),
]
ONCE = {"max_turns", "must_call_after", "must_followup"}
KEYS: list[list[str] | str] = [
    *[["session"]] * 4,
    ["session", "tool"],
    ["session", "args.x"],
    ["session", "agent"],
    *[["session", "args.r", "args.p"]] * 2,
    ["args.r", "args.p"],
    ["agent"],
    ["agent", "labels.tier"],
    ["labels.tier"],
    ["tool"],
    ["args.x"],
    "all",
]


def draw_rule(random: Random, number: int) -> dict[str, Any]:
    """Draw a rule that a policy may have: those that could never fire are refused at load."""
    while True:
        rule = draw_any_rule(random, number)
        try:
            load(as_policy([rule]))
        except PolicyError:
            continue
        return rule


def draw_any_rule(random: Random, number: int) -> dict[str, Any]:
    kind, choices = random.choice(KINDS)
    rule: dict[str, Any] = {"id": f"rule-{number}", "kind": kind, "params": random.choice(choices)}
    key = random.choice(KEYS)
    if key != ["session"]:
        rule["key"] = key
    elif random.random() < 0.3:
        rule["scope"] = "run"
    if random.random() < 0.3:
        rule["when"] = random.choice(CONDITIONS)
    if random.random() < 0.1:
        rule["unless"] = random.choice(CONDITIONS)
    if random.random() < 0.25:
        rule["cooldown"] = random.choice([60, 600, 7200])
    if random.random() < 0.15 and kind not in ONCE:
        rule["for"] = random.choice([30, 300])
    return rule


def with_copies(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Tell everything twice: under the session's own id, and under another one."""
    copied = [(event, msgspec.structs.replace(event, session_id=f"copy of {event.session_id}")) for event in events]
    return tuple(event for both in copied for event in both)


def draw_case(seed: str) -> Case:
    random = Random(seed)
    rules = [draw_rule(random, number) for number in range(random.randint(1, 3))]
    if random.random() < 0.05:
        paths = ("tool.args.items", "tool.args.items.0")
        rules += [
            {"id": f"at-{n}", "kind": "must_remain_consistent", "params": {"path": path}}
            for n, path in enumerate(paths)
        ]
    tells_all = any("when" in rule or "unless" in rule for rule in rules)
    odd = random.choice(["plain", "plain", *[name for name in ARGS if not name.startswith("joined")]])
    if any("args.x" in rule.get("key", ()) for rule in rules):
        odd = random.choice(["numbers", odd])
    if any("args.r" in rule.get("key", ()) for rule in rules):
        odd = f"joined by {ord(random.choice(SIGNS))}"
    events = tuple(draw_events(random, odd, tells_all=tells_all))
    if random.random() < 0.05:
        events = with_copies(events)
    restarts = frozenset(n for n in range(len(events)) if random.random() < random.choice([0.0, 0.0, 0.3]))
    return Case(tuple(rules), events, random.choice(["batch", "batch", "stream", "stream", "inline"]), restarts)


STEPS = (0.0, 0.0, 1.0, 1.0, 10.0, 30.0, 59.0, 60.0, 61.0, 300.0, 600.0, 1799.0, IDLE, 1801.0, 5000.0)
BACK = (-1.0, -30.0, -500.0, -1800.0, -4000.0)


def draw_events(random: Random, odd: str, *, tells_all: bool) -> Iterator[Event]:
    """Draw events of one to three sessions, each with a clock of its own or with none.

    ``tells_all``: no turn leaves out what a condition may ask for. What is unevaluable is another subject.
    """
    sessions = [f"s{number}" for number in range(random.choice([1, 1, 2, 3]))]
    clocks: dict[str, float | None] = {
        session: None if random.random() < 0.1 else random.choice([100000.0, 100000.0, 100100.0, 108000.0])
        for session in sessions
    }
    past: list[Event] = []
    for _ in range(random.randint(2, 14)):
        session = random.choice(sessions)
        again = draw_repeat(random, past) if past and random.random() < 0.15 else None
        if again is not None:
            yield again
            past.append(again)
            continue
        at = clocks[session]
        if at is not None:
            step = random.choice(BACK) if random.random() < 0.1 else random.choice(STEPS)
            step = FAR if random.random() < 0.03 else step
            clocks[session] = max(at, at + step) if step != FAR else at
            at += step
        event = draw_event(random, session, at, odd, len(past), tells_all=tells_all)
        past.append(event)
        yield event


def draw_repeat(random: Random, past: list[Event]) -> Event:
    """Draw something that was there: redelivered, told otherwise, with other content, or in another session."""
    event = random.choice(past)
    choice = random.randrange(4)
    if choice == 3 and (other := told_by_another(event, f"o{len(past)}")) is not None:
        return other
    if choice == 0:
        return event
    if choice == 1:
        return msgspec.structs.replace(event, **random.choice([{"labels": {"tier": "other"}}, other_content(event)]))
    alike = [one.session_id for one in past if (one.time is None) == (event.time is None)]  # with a clock, or without
    return msgspec.structs.replace(event, session_id=random.choice(alike))


def told_by_another(event: Event, event_id: str) -> Event | None:
    """Return the turn with the block of a call, or a call of a turn."""
    header: dict[str, Any] = {"session_id": event.session_id, "time": event.time, "event_id": event_id}
    header |= {"agent": event.agent, "run_id": event.run_id, "labels": event.labels}
    if isinstance(event, sg.ToolCall):
        block = {"type": "tool_use", "name": event.tool, "input": event.args, "id": event.call_id}
        request = {"model": "m1", "messages": [{"role": "assistant", "content": "go"}]}
        return sg.Turn(request=request, response={"content": [block], "stop_reason": "tool_use"}, **header)
    blocks = event.response["content"][1:] if isinstance(event, sg.Turn) else []
    calls = [sg.ToolCall(tool=one["name"], args=one["input"], call_id=one.get("id", ""), **header) for one in blocks]
    return calls[0] if calls else None


def other_content(event: Event) -> dict[str, Any]:
    """Return what makes another event of one, under the same id."""
    if isinstance(event, sg.Turn):
        return {"response": event.response | {"content": [{"type": "text", "text": "done otherwise"}]}}
    if isinstance(event, sg.ToolCall):
        return {"tool": "send", "args": {"x": "otherwise"}}
    if isinstance(event, sg.ToolResult):
        return {"status": "error", "output": "bad otherwise"}
    if isinstance(event, sg.UserMessage):
        return {"text": "please otherwise"}
    return {"action": "held"} if isinstance(event, sg.GateDecision) else {"run_id": "otherwise"}


def draw_event(random: Random, session: str, at: float | None, odd: str, number: int, *, tells_all: bool) -> Event:
    header: dict[str, Any] = {
        "session_id": session,
        "event_id": f"e{number}" if random.random() < 0.85 else "",
        "time": at,
        "agent": random.choice(["ann", "ann", "bob", ""]),
        "run_id": random.choice(["", "", "r1"]),
        "labels": random.choice([{}, {"tier": "gold"}, {"tier": "tin"}]),
    }
    tool, args = random.choice(TOOLS), random.choice(ARGS[random.choice(["plain", odd])])
    call_id = random.choice(["", "c1", "c2", "c3"])
    kind = random.choice(["call"] * 6 + ["turn"] * 4 + ["result"] * 3 + ["user"] * 2 + ["decision", "end"])
    if kind == "call":
        return sg.ToolCall(tool=tool, args=args, call_id=call_id, **header)
    if kind == "result":
        status: Any = random.choice(["ok", "error", "error", "blocked"])
        return sg.ToolResult(tool=tool, call_id=call_id, status=status, output=random.choice(["fine", "bad"]), **header)
    if kind == "decision":
        action: Any = random.choice(["allow", "pause", "block"])
        return sg.GateDecision(tool=tool, call_id=call_id, action=action, **header)
    if kind == "user":
        return sg.UserMessage(text=random.choice(["please", "no"]), **header)
    if kind == "end":
        return sg.SessionEnd(**header)
    return draw_turn(random, header, odd, tells_all=tells_all)


def draw_turn(random: Random, header: dict[str, Any], odd: str, *, tells_all: bool) -> Event:
    content: list[Any] = [{"type": "text", "text": random.choice(["done", "look there", "well"])}]
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        args = random.choice(ARGS[random.choice(["plain", odd])])
        block = {"type": "tool_use", "name": random.choice(TOOLS), "input": args}
        call_id = random.choice(["", "c1", "c2", "c3"])
        content.append(block | ({"id": call_id} if call_id else {}))
    stop = "tool_use" if len(content) > 1 else random.choice(["end_turn", "end_turn", "max_tokens"])
    request: Any = None
    if tells_all or random.random() < 0.6:
        role = random.choice(["user", "assistant"])
        params = random.choice([{"amount": 5}, {"amount": 5.0}, {"amount": 9}, {}])
        request = {
            "model": random.choice(["m1", "m2"]),
            "messages": [{"role": role, "content": "go"}],
            "params": params,
        }
    return sg.Turn(request=request, response={"content": content, "stop_reason": stop}, **header)


# ---- running both


def as_policy(rules: Iterable[dict[str, Any]]) -> str:
    return json.dumps({"version": 2, "sessions": {"idle": IDLE}, "rules": list(rules)})


@cache
def installed() -> Registry:
    return build_registry()


@lru_cache(maxsize=5000)
def load(rules: str) -> Policy:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.json"
        path.write_text(rules)
        return load_policy(path, installed())


def policy_of(case: Case) -> Policy:
    return load(as_policy(case.rules))


@dataclass
class Difference(Exception):  # noqa: N818  # it is what is looked for
    """What the two sides say."""

    where: str
    reference: str
    product: str

    @property
    def sort(self) -> str:
        return self.where.split(" at event")[0]

    def __str__(self) -> str:
        return f"{self.where}\n  reference: {self.reference}\n  product:   {self.product}"


def run_reference(case: Case) -> Watched:
    reference = Watched(policy_of(case), case.mode)
    for event in case.events:
        reference.feed(event)
    reference.end_all()
    return reference


def run_product(case: Case) -> list[sg.Finding]:
    product, found, number = Product(policy_of(case), case.mode), [], -1
    try:
        for number, event in enumerate(case.events):
            found += product.feed(event)
            if number in case.restarts:
                product.commit_and_restart()
                check_rows(case, number + 1, product.rows())
        found += product.end_all()
        check_rows(case, len(case.events), product.rows())
    except Difference:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is
        raise Difference(f"crash at event {number}", "-", last_line(error)) from None
    told: dict[str, sg.Finding] = {}
    for one in found:
        told.setdefault(one.alert_id, one)
    return list(told.values())


def check_rows(case: Case, count: int, rows: int) -> None:
    """There are rows of sessions, and of values of keys: no event and no call has more than one of each key."""
    events = case.events[:count]
    told = sum(1 + len(event.response.get("content", [])) if isinstance(event, sg.Turn) else 1 for event in events)
    keys = {spec.key for spec in policy_of(case).rules if "session" not in spec.key}
    most = len({event.session_id for event in events}) + told * len(keys)
    if rows > most:
        raise Difference(f"rows at event {count - 1}", f"at most {most}", str(rows))


def last_line(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:100]} ({Path(place.filename).name}:{place.lineno})"


@dataclass
class Ids:
    """Which alert id stands for which identity, over all runs of the same events."""

    alerts: dict[Any, str] = field(default_factory=dict)
    identities: dict[str, Any] = field(default_factory=dict)

    def check(self, identity: Any, alert: str) -> None:
        known, other = self.alerts.setdefault(identity, alert), self.identities.setdefault(alert, identity)
        if known != alert:
            raise Difference("two alert ids for one finding", repr(identity), f"{known[:8]} and {alert[:8]}")
        if other != identity:
            raise Difference("one alert id for two findings", f"{other!r} and {identity!r}", alert[:8])


def compare(case: Case, ids: Ids) -> None:
    """Run both; raise the first difference."""
    found = findings_of(run_reference(case))
    ours = [(repr(one), identity) for identity, one in found.items()]
    theirs = [(repr(content_of(one, case)), one.alert_id) for one in run_product(case)]
    left, right = Counter(content for content, _ in ours), Counter(content for content, _ in theirs)
    if left != right:
        raise Difference("findings", "; ".join(sorted((left - right).elements())), "; ".join((right - left).elements()))
    alerts = dict(theirs)
    for content, identity in ours:
        if left[content] == 1:  # of two that say the same, nobody knows which is which
            ids.check(identity, alerts[content])


class Found(NamedTuple):
    """What a finding says, on both sides."""

    slot: str
    at: str
    session: str
    time: float | None
    turn: int | None
    detail: str

    def __repr__(self) -> str:
        return str((*self[:4], -1 if self.turn is None else self.turn, self.detail))


def content_of(one: sg.Finding, case: Case) -> Found:
    """Return what a finding of the product says, as the reference says it."""
    spans = one.at != "event" and one.slot in spanning(case)
    return Found(one.slot, one.at, "" if spans else one.session_id, one.time, one.index, one.detail)


def findings_of(reference: Reference) -> dict[Any, Found]:
    return {identity: Found(*said) for identity, said in reference.found.items()}


def spanning(case: Case) -> set[str]:
    """Return the rules whose key spans sessions."""
    return {spec.slot for spec in policy_of(case).rules if "session" not in spec.key}


def variants(case: Case) -> Iterator[Case]:
    """Return the case, and others in which every finding of it must have the same id."""
    yield case
    if case.restarts:
        yield replace(case, restarts=frozenset())
    if (swapped := told_otherwise(case)) != case:
        yield swapped
    if case.mode != "stream" and not spanning(case):  # sessions have nothing to do with each other
        yield replace(case, restarts=frozenset(), events=tuple(sorted(case.events, key=lambda event: event.session_id)))


def told_otherwise(case: Case) -> Case:
    """Return the case with each turn and the call next to it, of one session, in the other order."""
    events = list(case.events)
    for number in range(len(events) - 1):
        one, other = events[number : number + 2]
        if one.session_id == other.session_id and {type(one), type(other)} == {sg.Turn, sg.ToolCall}:
            events[number : number + 2] = [other, one]
    return replace(case, events=tuple(events), restarts=frozenset())


def among_others(case: Case, every: float) -> Case:
    """Return the case with its events in order of time, and another session that speaks so often in between."""
    timed = sorted((event for event in case.events if event.time is not None), key=lambda event: event.time or 0.0)
    timed = [event for event in timed if (event.time or 0.0) < FAR]
    others: list[Event] = []
    if timed and every:
        first, last = timed[0].time or 0.0, timed[-1].time or 0.0
        count = int((last - first) / every) + 1
        others = [sg.UserMessage(session_id="other", event_id=f"o{n}", time=first + n * every) for n in range(count)]
    events = tuple(sorted([*timed, *others], key=lambda event: event.time or 0.0))
    return replace(case, mode="stream", events=events, restarts=frozenset())


def may_be_forgotten(case: Case) -> bool:
    """Whether a session is silent for so long that nothing need be known of it afterwards."""
    times: dict[str, list[float]] = {}
    for event in case.events:
        times.setdefault(event.session_id, []).append(event.time or 0.0)
    in_order = [sorted(of_session) for of_session in times.values()]
    return any(later - earlier >= 2 * IDLE for one in in_order for earlier, later in pairwise(one))


def differs(case: Case, ids: Ids | None = None) -> Difference | None:
    ids = ids if ids is not None else Ids()
    try:
        for variant in variants(case):
            compare(variant, ids)
    except Difference as difference:
        return difference
    return None


# ---- what was found, made small


def shrink(case: Case, sort: str) -> Case:
    """Leave out whatever is not needed for a difference of the same sort."""

    def still(smaller: Case) -> bool:
        difference = differs(smaller)
        return difference is not None and difference.sort == sort

    shrinking = True
    while shrinking:
        shrinking = False
        for smaller in smaller_cases(case):
            if still(smaller):
                case, shrinking = smaller, True
                break
    return case


PLAIN: dict[str, Any] = {"labels": {}, "agent": "", "run_id": "", "request": None, "args": {}, "event_id": ""}


def smaller_cases(case: Case) -> Iterator[Case]:
    yield from with_less_policy(case)
    if case.restarts:
        yield replace(case, restarts=frozenset())
    for number in range(len(case.events)):
        kept = case.events[:number] + case.events[number + 1 :]
        yield replace(case, events=kept, restarts=frozenset(at - (at >= number) for at in case.restarts))
    for restart in sorted(case.restarts):
        if len(case.restarts) > 1:
            yield replace(case, restarts=case.restarts - {restart})
    for number, event in enumerate(case.events):
        for name, plain in PLAIN.items():
            if getattr(event, name, plain) != plain:
                simpler = msgspec.structs.replace(event, **{name: plain})
                yield replace(case, events=(*case.events[:number], simpler, *case.events[number + 1 :]))


def with_less_policy(case: Case) -> Iterator[Case]:
    for number, rule in enumerate(case.rules):
        before, after = case.rules[:number], case.rules[number + 1 :]
        if before or after:
            yield replace(case, rules=before + after)
        for name in ("when", "unless", "cooldown", "for", "scope", "key"):
            if name in rule:
                yield replace(case, rules=(*before, {key: rule[key] for key in rule if key != name}, *after))


def as_literals(case: Case) -> str:
    lines = [f"Case(mode={case.mode!r}, restarts={sorted(case.restarts)}, rules=("]
    lines += [f"    {rule!r}," for rule in case.rules]
    lines += ["), events=("]
    for event in case.events:
        fields = {
            name: value for name, value in msgspec.structs.asdict(event).items() if name not in {"index", "attempt"}
        }
        defaults = dict(
            zip(event.__struct_fields__[-len(event.__struct_defaults__) :], event.__struct_defaults__, strict=True)
        )
        said = [
            f"{name}={value!r}"
            for name, value in fields.items()
            if name not in defaults or value not in (defaults[name], {}, "", ())
        ]
        lines.append(f"    sg.{type(event).__name__}({', '.join(said)}),")
    return "\n".join([*lines, "))"])


# ---- the table


class Watched(Reference):
    """A reference that notes which situations it met."""

    def __init__(self, policy: Policy, mode: Mode) -> None:
        super().__init__(policy, mode)
        self.met: set[str] = set()

    def note(self, **names: bool) -> None:
        self.met |= {name.replace("_", " ") for name, is_met in names.items() if is_met}

    def _settle(self, session: Life, time: float) -> Life:
        if session.waiting is not None:
            self.note(stamp_not_believed=time < (session.waiting[0].time or 0.0) - IDLE)
        return super()._settle(session, time)

    def _take(self, session: Life, event: Event, about: Any, *, begins_anew: bool, is_believed: bool = True) -> Life:
        if begins_anew and event.time is not None and session.clock is not None:
            self.note(exactly_idle=event.time - session.clock == IDLE, longer_than_idle=True)
        return super()._take(session, event, about, begins_anew=begins_anew, is_believed=is_believed)

    def _move(self, life: Life, event: Event) -> None:
        is_late = None not in (event.time, life.clock) and (event.time or 0.0) < (life.clock or 0.0)
        self.note(went_on_after_its_end=life.is_over, late=is_late)
        super()._move(life, event)

    def _pass_time(self) -> None:
        before = [life for lives in self.lives.values() for life in lives if life.closed_at is None]
        super()._pass_time()
        self.note(ended_by_the_clock_of_others=any(life.closed_at is not None for life in before))

    def _known_attempt(self, session: Life, call: sg.ToolCall, by: str) -> Attempt | None:
        known = super()._known_attempt(session, call, by)
        if known is not None:
            is_block, is_repeat = by == "block", by in known.told_by
            self.note(block_after_its_call=is_block, call_after_its_block=not is_block, call_told_again=is_repeat)
        return known

    def _life_of_key(self, key: tuple[str, ...], values: tuple[str, ...], event: Event) -> Life:
        life = super()._life_of_key(key, values, event)
        self.note(key_across_sessions=True, before_the_pause_of_a_key=self.lives[key, values][0] is not life)
        return life

    def _ask(self, slot: Slot, life: Life, event: Event, about: Any, handler: str) -> None:
        super()._ask(slot, life, event, about, handler)
        if slot.hits_since is not None and slot.spec.hold is not None:
            self.note(held_by_for=(event.time or 0.0) - slot.hits_since < slot.spec.hold)

    def _tell(self, slot: Slot, hit: sg.Hit | None, life: Life, at: str, time: float | None, about: Any) -> None:
        since = inf if hit is None or time is None or slot.told_at is None else abs(time - slot.told_at)
        self.note(deadline=at == "deadline", held_back_by_a_cooldown=since < (slot.spec.cooldown or 0.0))
        super()._tell(slot, hit, life, at, time, about)


def situations(case: Case, reference: Watched) -> Counter[str]:
    """Count what a case and its run met."""
    met = Counter(reference.met)
    told = [repr(event) for event in case.events]
    text = "".join(told)
    ids = [(event.session_id, event.event_id) for event in case.events if event.event_id]
    met["redelivered"] += any(repr(e) in told[:number] and e.event_id != "" for number, e in enumerate(case.events))
    met["id again, other content"] += len(set(ids)) < len({one for one in told if "event_id=''" not in one})
    met["equal ids in two sessions"] += len(set(ids)) > len({event_id for _, event_id in ids})
    met["equal sessions under two ids"] += "copy of" in text
    met["no event times at all"] += all(event.time is None for event in case.events)
    met["far-future stamps"] += any((event.time or 0.0) >= FAR for event in case.events)
    met["2**70"] += str(2**70)[:12] in text
    met["lone surrogates"] += "\\ud800" in text or "\\udfff" in text
    met["NaN"] += "nan" in text
    met["depth"] += text.count("[{'d': [") > 20
    met["a list where an object was"] += "'items': [" in text and "'items': {" in text
    met["values of a key that a sign joins alike"] += "'r': 'acme'" in text and "'p': 'main'" in text
    met["commits and restarts"] += bool(case.restarts)
    met[f"mode {case.mode}"] += 1
    for name in ("cooldown", "for", "when", "unless", "scope", "key"):
        met[f"rules with {name}"] += any(name in rule for rule in case.rules)
    for rule in case.rules:
        met[f"kind {rule['kind']}"] += 1
    return met


@dataclass
class Report:
    """What a search has seen."""

    met: Counter[str]
    differences: list[tuple[str, Case, Difference]]
    digest: str
    seconds: float


def search(examples: int, seed: int, most: int = 1, without: Iterable[str] = (), *, run_product: bool = True) -> Report:
    """Look at so many cases, but not at those that meet a situation of ``without``; stop after ``most`` differences."""
    met: Counter[str] = Counter()
    differences: list[tuple[str, Case, Difference]] = []
    digest, begun = hashlib.sha256(), time.process_time()
    for number in range(examples):
        name = f"{seed}/{number}"
        case = draw_case(name)
        here = situations(case, run_reference(case))
        if any(here[situation] for situation in without):
            continue
        met += here
        ids = Ids()
        difference = differs(case, ids) if run_product else None
        digest.update(f"{name} {difference} {sorted(ids.identities)}".encode("utf-8", "surrogatepass"))
        if difference is not None:
            differences.append((name, case, difference))
            if len(differences) >= most:
                break
    return Report(met, differences, digest.hexdigest()[:16], time.process_time() - begun)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--differences", type=int, default=1, help="stop after so many")
    parser.add_argument("--without", action="append", default=[], help="leave out cases that meet a situation")
    parser.add_argument("--only-digest", action="store_true", help="print a digest of all that was found")
    arguments = parser.parse_args()
    report = search(arguments.examples, arguments.seed, arguments.differences, arguments.without)
    if arguments.only_digest:
        print(report.digest)
        return 0
    for name, count in sorted(report.met.items()):
        print(f"{count:8} {name}")
    print(f"digest {report.digest}, {report.seconds:.1f} s")
    for name, case, difference in report.differences:
        small = shrink(case, difference.sort)
        print(f"\n# {name}: {differs(small)}\n{as_literals(small)}")
    return bool(report.differences)


if __name__ == "__main__":
    sys.exit(main())
