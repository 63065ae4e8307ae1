"""One rule, the same verdict: batch, the stream with restarts and the inline guard, for any policy and any events."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.storage.stores import MemoryStore
from stream_guard.testing import events, rule_spec
from stream_guard.testing.laws import Trace, traces
from tests.replaying import ReplayingGuard

KINDS = build_registry().kinds

CONDITIONS: list[Any] = [
    None,
    [],
    [{"path": "stop_reason", "op": "==", "value": "tool_use"}],
    [{"path": "request.params.amount", "op": ">", "value": 500}],
    {"path": "tool.name", "op": "!=", "value": "other_tool"},
    {"any_of": [{"path": "user.text", "op": "contains", "value": "go on"}, {"path": "labels.env", "op": "exists"}]},
    {"not": {"path": "response.content", "op": "contains", "value": "look"}},
    {"path": "labels.fired", "op": "exists"},
    {"not": {"path": "labels.fired", "op": "==", "value": "twice"}},
]


LABELS: list[dict[str, str]] = [{}, {}, {"fired": "once"}, {"fired": "twice", "other": "yes"}]


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """A policy of up to four rules of any kinds, each with any of the things the engine adds."""
    specs = []
    for number in range(draw(st.integers(1, 4))):
        kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        example = draw(st.sampled_from(list(kind.examples)))
        key, scope = draw(
            st.sampled_from(
                [
                    (("session",), "session"),
                    (("session",), "part"),
                    (("session",), "run"),
                    (("session", "tool"), "session"),
                    (("agent",), "session"),
                ]
            )
        )
        specs.append(
            rule_spec(
                kind,
                example.params,
                rule_id=f"rule-{number}",
                when=draw(st.sampled_from(CONDITIONS)),
                unless=draw(st.sampled_from([None, None, None, CONDITIONS[2], CONDITIONS[5]])),
                scope=scope,
                key=key,
                cooldown=draw(st.sampled_from([None, None, 60.0])),
                hold=draw(st.sampled_from([None, None, None, 30.0])),
                set_labels=draw(st.sampled_from(LABELS)) if "session" in key else {},
            )
        )
    return Policy(rules=tuple(specs), version="drawn", max_out_of_orderness=draw(st.sampled_from([0.0, 0.0, 5.0])))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Policy, Trace]:
    """A policy and a session made of what its kinds react to."""
    policy = draw(policies())
    parts: list[Any] = []
    for spec in policy.rules:
        parts += draw(traces(type(spec.rule), max_size=6))
    order = draw(st.permutations(parts))
    clock = sorted(item["at"] for item in parts if "at" in item)
    timed = [{**item, "at": clock.pop(0)} if "at" in item else item for item in order]
    agent = draw(st.sampled_from(["", "refunds@1"]))
    return policy, [*({**item, "agent": agent, "run": "r1"} for item in timed), {"end": "closed"}]


def on_the_stream(trace: list[Event], policy: Policy) -> list[Finding]:
    """Fold with a restart before every event: a new process that knows only what was stored."""
    store, found = MemoryStore(), list[Finding]()
    for event in trace:
        counts = Counts()
        table = Judge(policy, mode="stream", store=store, counts=counts)
        found += table.feed(event).findings
        table.commit()
    counts = Counts()
    found += Judge(policy, mode="stream", store=store, counts=counts).end()
    return found


def ids(found: list[Finding]) -> list[str]:
    return sorted(finding.alert_id for finding in found)


@settings(max_examples=3 * settings().max_examples)
@given(cases())
def test_batch_is_stream_with_restarts_is_inline(case: tuple[Policy, Trace]) -> None:
    policy, trace = case
    batch = evaluate(events(trace), policy)
    assert ids(on_the_stream(events(trace), policy)) == ids(batch)
    if all("inline" in spec.rule.modes for spec in policy.rules):
        guard = ReplayingGuard(policy)
        said = [finding for event in events(trace) for finding in guard.observe(event)]
        said += guard.end_all()
        assert ids(said) == ids(batch)
