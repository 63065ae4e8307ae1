"""One tool call is one call: whichever spans tell of it, in whatever order and in however many exports they come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stream_guard as sg
from stream_guard.judge.judge import Judge
from stream_guard.judge.spec import Policy
from stream_guard.pipeline import Pipeline
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SESSION = "conv-1"


SHOWN: list[sg.Event] = []


class Recorder(sg.Rule[sg.Params, sg.NoState]):
    """Remembers the turns, calls and results that rules are shown."""

    kind = "recorder"
    examples = ()

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> None:
        SHOWN.append(turn)

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> None:
        SHOWN.append(call)

    def on_tool_result(self, result: sg.ToolResult, _state: sg.NoState) -> None:
        SHOWN.append(result)


class Plugin:
    """Brings the recorder in."""

    @sg.hookimpl
    def stream_guard_rules(self) -> list[sg.RuleType]:
        return [Recorder]


@cache
def assembled() -> tuple[Assembly, Policy]:
    installed = build_registry(extra=[Plugin()])
    assembly = Assembly(Settings(), installed)
    rules = json.dumps({"rules": [{"id": "recorder", "kind": "recorder"}]})
    return assembly, assembly.fit(load_policy(rules, installed, file="recorder.json"), "otlp-json")


class NoRefusal:
    """Fails where a record is refused."""

    def add(self, record: Record, reason: str) -> None:
        pytest.fail(f"{record.position} was refused: {reason}")


def span(
    number: int, parent: int, times: tuple[float, float], failed: bool = False, **attributes: Any
) -> dict[str, Any]:
    start, end = (str(int((1_767_600_000 + time) * 1e9)) for time in times)
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    written = [{"key": name, "value": {"stringValue": value}} for name, value in named.items()]
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": named.get("mcp.method.name", named.get("gen_ai.operation.name", "POST")),
        "startTimeUnixNano": start,
        "endTimeUnixNano": end,
        "status": {"code": 2, "message": "it broke"} if failed else {},
        "attributes": [*written, {"key": "session.id", "value": {"stringValue": SESSION}}],
    }


def chat(number: int, parent: int, times: tuple[float, float], before: Sequence[Any], answer: Any) -> dict[str, Any]:
    messages: dict[str, Any] = {
        "gen_ai__input__messages": json.dumps(before),
        "gen_ai__output__messages": json.dumps([answer]),
    }
    return span(number, parent, times, gen_ai__operation__name="chat", **messages)


def tool(number: int, parent: int, times: tuple[float, float], city: str, **more: Any) -> dict[str, Any]:
    failed = more.pop("failed", False)
    args: dict[str, Any] = {
        "gen_ai__tool__name": "weather",
        "gen_ai__tool__call__arguments": json.dumps({"city": city}),
    }
    return span(number, parent, times, failed=failed, gen_ai__operation__name="execute_tool", **args, **more)


def mcp(number: int, parent: int, times: tuple[float, float], city: str, request: int, **more: Any) -> dict[str, Any]:
    ids = {"jsonrpc__request__id": str(request), "mcp__session__id": "m1", "mcp__method__name": "tools/call"}
    return tool(number, parent, times, city, **ids, **more)


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": "stop"}


def asked(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def called(*calls: tuple[str, str]) -> dict[str, Any]:
    parts = [{"type": "tool_call", "id": one, "name": "weather", "arguments": {"city": city}} for one, city in calls]
    return {"role": "assistant", "parts": parts, "finish_reason": "tool_call"}


def answered(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": text}]}


def one_call() -> list[dict[str, Any]]:
    """An agent's span, an MCP client's and a server's, with transport between the two."""
    question = asked("Weather in Paris?")
    return [
        chat(2, 1, (1, 2), [question], called(("call_1", "Paris"))),
        tool(3, 1, (3, 8), "Paris", gen_ai__tool__call__id="call_1"),
        mcp(4, 3, (3.5, 7.5), "Paris", 1),
        span(5, 4, (4, 7), http__request__method="POST"),
        mcp(6, 5, (5, 6), "Paris", 1),
        chat(7, 1, (9, 10), [question, called(("call_1", "Paris")), answered("call_1", "rain")], said("It rains.")),
        span(1, 0, (0, 11), gen_ai__operation__name="invoke_agent", gen_ai__agent__name="meteo"),
    ]


def two_at_once() -> list[dict[str, Any]]:
    """Two calls in one answer that cross; one of them fails in the server only."""
    question = asked("Berlin or Rome?")
    return [
        chat(2, 1, (1, 2), [question], called(("call_1", "Berlin"), ("call_2", "Rome"))),
        tool(3, 1, (3, 8), "Berlin", gen_ai__tool__call__id="call_1", failed=True),
        mcp(4, 3, (3.5, 7.5), "Berlin", 1, failed=True),
        tool(5, 1, (3.1, 5), "Rome", gen_ai__tool__call__id="call_2"),
        mcp(6, 5, (3.2, 4.9), "Rome", 2),
        span(1, 0, (0, 11), gen_ai__operation__name="invoke_agent", gen_ai__agent__name="meteo"),
    ]


def tried_again() -> list[dict[str, Any]]:
    """One call of the model's, for which the client asked the server twice: two calls, the first of which failed."""
    return [
        chat(2, 1, (1, 2), [asked("Weather in Paris?")], called(("call_1", "Paris"))),
        tool(3, 1, (3, 8), "Paris", gen_ai__tool__call__id="call_1"),
        mcp(4, 3, (3.5, 4.5), "Paris", 1, failed=True),
        mcp(5, 3, (5, 7), "Paris", 2),
        span(1, 0, (0, 11), gen_ai__operation__name="invoke_agent", gen_ai__agent__name="meteo"),
    ]


def without_an_agent() -> list[dict[str, Any]]:
    """Two requests to a server, one after the other, from a program that tells nothing of an agent."""
    return [
        mcp(2, 1, (1, 3), "Paris", 1),
        mcp(3, 2, (1.5, 2.5), "Paris", 1),
        mcp(4, 1, (4, 6), "Paris", 2),
        mcp(5, 4, (4.5, 5.5), "Paris", 2),
        span(1, 0, (0, 7), http__request__method="POST"),
    ]


HAPPENED = {
    one_call: (1, ["ok"], 2),
    two_at_once: (2, ["error", "ok"], 1),
    tried_again: (2, ["error", "ok"], 1),
    without_an_agent: (2, ["ok", "ok"], 0),
}


def count(records: Sequence[Sequence[dict[str, Any]]]) -> tuple[int, list[str], int]:
    """Return how many calls rules are shown, how they ended, and how many turns there were."""
    assembly, policy = assembled()
    exports = [{"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]} for spans in records if spans]
    table = Judge(policy, mode="stream")
    pipeline = Pipeline(assembly.make_decoder("otlp-json"), table, NoRefusal())
    SHOWN.clear()
    found: list[sg.Finding] = []
    pipeline.run([Record(json.dumps(one).encode(), "topic/0", number) for number, one in enumerate(exports)], found)
    pipeline.finish(found)
    found += table.end()
    assert {event.session_id for event in SHOWN} == {SESSION}
    results = [event for event in SHOWN if isinstance(event, sg.ToolResult)]
    assert all(result.attempt >= 0 for result in results)
    assert max(Counter(result.attempt for result in results).values()) == 1
    calls = sum(isinstance(event, sg.ToolCall) for event in SHOWN)
    turns = sum(isinstance(event, sg.Turn) for event in SHOWN)
    return calls, sorted(result.status for result in results), turns


@pytest.mark.parametrize("trace", HAPPENED)
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(data=st.data())
def test_order_of_arrival_and_split_into_exports_do_not_matter(trace: Any, data: st.DataObject) -> None:
    spans = data.draw(st.permutations(trace()))
    cuts = sorted(data.draw(st.sets(st.integers(min_value=1, max_value=len(spans) - 1))))
    records = [spans[start:end] for start, end in zip([0, *cuts], [*cuts, len(spans)], strict=True)]
    calls, statuses, turns = count(records)
    wanted = HAPPENED[trace]
    assert (calls, len(statuses), turns) == (wanted[0], len(wanted[1]), wanted[2])
    # Which of two tries failed only the inner spans know: the outer one may have been told before they came.
    assert trace is tried_again or statuses == wanted[1]


@pytest.mark.parametrize("trace", HAPPENED)
def test_an_export_that_comes_twice_changes_nothing(trace: Any) -> None:
    assert count([trace(), trace()]) == HAPPENED[trace]
    apart = [[one] for one in trace()]
    assert count([*apart, trace()]) == count(apart)


@pytest.mark.parametrize("trace", HAPPENED)
@pytest.mark.parametrize("missing", ["gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "mcp.session.id"])
def test_what_a_producer_leaves_out_does_not_change_the_count(trace: Any, missing: str) -> None:
    spans = trace()
    for one in spans:
        one["attributes"] = [pair for pair in one["attributes"] if pair["key"] != missing]
    if trace is two_at_once and missing == "gen_ai.tool.call.arguments":
        assert count([spans])[0] == 2
    else:
        assert count([spans]) == HAPPENED[trace]


def test_a_tool_that_uses_another_tool_is_two_calls() -> None:
    spans = [
        tool(3, 0, (3, 8), "Paris", gen_ai__tool__call__id="call_1"),
        mcp(4, 3, (4, 7), "Rome", 1),
    ]
    assert count([spans]) == (2, ["ok", "ok"], 0)


def test_a_framework_may_put_the_server_in_front_of_the_name() -> None:
    spans = [tool(3, 0, (3, 8), "Paris", gen_ai__tool__call__id="call_1"), mcp(4, 3, (4, 7), "Paris", 1)]
    for pair in spans[0]["attributes"]:
        if pair["key"] == "gen_ai.tool.name":
            pair["value"] = {"stringValue": "mcp__meteo__weather"}
    assert count([spans]) == (1, ["ok"], 0)
