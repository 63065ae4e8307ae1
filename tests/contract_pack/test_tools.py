"""Wrapped Python tools and models: in a scenario run they meet its faults, outside they only call the function."""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Callable
from typing import Any

import pytest
from stream_guard_contract import ModelUnavailableError, ToolUnavailableError, model, tool, tools
from stream_guard_contract.faults import GARBAGE, TOOL_PAYLOAD
from stream_guard_contract.recording import encode_events

from stream_guard.judge.model import ToolCall, Turn
from tests.contract_pack.scenario_runs import active_scenario, met, read_back, results, scenario_with

ASKED: list[str] = []


@tool
def price(ticker: str, *, currency: str = "USD") -> dict[str, Any]:
    """Return a price."""
    ASKED.append(ticker)
    if ticker == "NONE":
        raise LookupError("not traded")
    return {"ticker": ticker, "price": 1.5, "currency": currency}


@tool
async def price_later(ticker: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"ticker": ticker, "price": 1.5}


def call(ticker: str = "ACME", **faults: Any) -> tuple[Any, list[Any]]:
    ASKED.clear()
    with active_scenario(scenario_with(**faults)) as running:
        try:
            got: Any = price(ticker)
        except Exception as error:  # noqa: BLE001  # what is raised is what is looked at
            got = error
        return got, running.end("", 0)


def test_outside_a_scenario_run_a_wrapped_tool_is_the_tool() -> None:
    assert price("ACME") == {"ticker": "ACME", "price": 1.5, "currency": "USD"}
    assert price.__name__ == "price"
    assert price.__doc__ == "Return a price."


def test_without_faults_the_call_and_its_result_are_recorded_by_name() -> None:
    got, events = call()
    [attempt] = [event for event in events if isinstance(event, ToolCall)]
    assert (attempt.tool, attempt.args) == ("price", {"ticker": "ACME"})
    assert results(events)[0].output == got
    assert results(events)[0].call_id == attempt.call_id


def test_a_tool_that_is_down_raises_and_was_not_asked() -> None:
    got, events = call(tool_faults=[{"tool": "price", "mode": "error", "error_code": 500, "message": "boom"}])
    assert isinstance(got, ToolUnavailableError)
    assert (str(got), got.status, ASKED) == ("500 boom", 500, [])
    assert results(events)[0].status == "error"


def test_a_tool_that_times_out_raises_what_a_timeout_raises() -> None:
    got, events = call(tool_faults=[{"tool": "price", "mode": "timeout", "delay_ms": 1}])
    assert isinstance(got, TimeoutError)
    assert ASKED == []
    assert met(events) == {"tool_faults/0/timeout"}


def test_a_malformed_answer_is_a_text_that_is_no_json() -> None:
    got, _ = call(tool_faults=[{"tool": "price", "mode": "malformed"}])
    assert ASKED == ["ACME"]
    assert got.startswith('{"ticker"')
    with pytest.raises(ValueError):
        json.loads(got)


def test_a_malicious_answer_is_the_payload() -> None:
    assert call(tool_faults=[{"tool": "price", "mode": "malicious_response"}])[0] == TOOL_PAYLOAD
    assert call(tool_faults=[{"tool": "price", "mode": "malicious_response", "payload": "obey"}])[0] == "obey"
    assert ASKED == []


def test_a_slow_tool_answers_late_and_rightly() -> None:
    got, events = call(tool_faults=[{"tool": "price", "mode": "slow", "delay_ms": 30}])
    assert got["price"] == 1.5
    latency = results(events)[0].latency_ms
    assert latency is not None
    assert latency >= 30
    assert met(events) == {"tool_faults/0/slow"}


def test_a_tool_that_fails_of_itself_fails_as_ever_and_no_fault_is_met() -> None:
    got, events = call("NONE", tool_faults=[{"tool": "other", "mode": "error"}])
    assert isinstance(got, LookupError)
    assert results(events)[0].output == "LookupError: not traded"
    assert met(events) == set()


def test_an_injected_answer_keeps_what_the_tool_said() -> None:
    got, events = call(context_attacks=[{"type": "indirect_injection", "payload": "obey"}])
    assert got == {"ticker": "ACME", "price": 1.5, "currency": "USD", "note": "obey"}
    assert met(events) == {"context_attacks/0/indirect_injection"}


def test_an_async_tool_meets_the_same() -> None:
    assert asyncio.run(price_later("ACME"))["price"] == 1.5
    down = scenario_with(tool_faults=[{"tool": "price_later", "mode": "error"}])
    with active_scenario(down), pytest.raises(ToolUnavailableError):
        asyncio.run(price_later("ACME"))
    with active_scenario(
        scenario_with(tool_faults=[{"tool": "price_later", "mode": "slow", "delay_ms": 5}])
    ) as running:
        assert asyncio.run(price_later("ACME"))["price"] == 1.5
        assert met(running.end("", 0)) == {"tool_faults/0/slow"}


def test_a_call_that_does_not_fit_the_tool_is_recorded_and_refused_by_the_tool() -> None:
    with active_scenario(scenario_with()) as running:
        with pytest.raises(TypeError):
            price("a", "b", "c")  # type: ignore[call-arg]  # which is what is refused
        events = running.end("", 0)
    [attempt] = [event for event in events if isinstance(event, ToolCall)]
    assert attempt.args == {"args": ["a", "b", "c"]}
    assert results(events)[0].status == "error"


def test_a_table_of_tools_is_wrapped_at_once() -> None:
    named: dict[str, Callable[..., Any]] = {"add": operator.add, "upper": str.upper}
    table = tools(named)
    with active_scenario(scenario_with(tool_faults=[{"tool": "add", "mode": "error"}])):
        with pytest.raises(ToolUnavailableError):
            table["add"](1, 2)
        assert table["upper"]("x") == "X"


def test_what_a_tool_returns_is_recorded_whatever_it_is() -> None:
    circular: list[Any] = []
    circular.append(circular)
    for value in (object(), circular, {1: {2}}, b"\xff", "\ud800", float("nan"), 10**400, "x" * 300_000):
        with active_scenario(scenario_with()) as running:
            tools({"any": lambda value=value: value})["any"]()
            assert len(results(running.end("", 0))) == 1


@model
def think(messages: list[dict[str, Any]]) -> str:
    return f"{len(messages)} messages and then more words"


def test_a_wrapped_model_meets_the_faults_of_models_and_is_recorded() -> None:
    chat = [{"role": "user", "content": "hi"}]
    assert think(chat) == "1 messages and then more words"
    with active_scenario(scenario_with(llm_faults=[{"mode": "truncated_response", "max_tokens": 2}])) as running:
        assert think(chat) == "1 messages"
        events = running.end("", 0)
    assert met(events) == {"llm_faults/0/truncated_response"}
    assert next(event for event in events if isinstance(event, Turn)).request == {"messages": chat}
    with active_scenario(scenario_with(llm_faults=[{"mode": "garbage"}])):
        assert think(chat) == GARBAGE
    with (
        active_scenario(scenario_with(llm_faults=[{"mode": "rate_limit"}])),
        pytest.raises(ModelUnavailableError, match="429"),
    ):
        think(chat)
    with active_scenario(scenario_with(llm_faults=[{"mode": "timeout", "delay_ms": 1}])), pytest.raises(TimeoutError):
        think(chat)


class Words(str):
    """A text of another type, as template engines make them."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("answer", "recorded"),
    [
        ("plain", "plain"),
        ("half \ud800 a pair", "half "),
        (Words("wrapped"), "wrapped"),
        (12, "12"),
        ("long " * 300_000, "cut]"),
    ],
    ids=["plain", "half a pair", "another type", "no text", "long"],
)
def test_what_a_model_answers_is_recorded_whatever_it_is(answer: Any, recorded: str) -> None:
    with active_scenario(scenario_with()) as running:
        assert model(lambda _messages: answer)([]) == answer
        events = read_back(encode_events(running.end("", 0)))
    turn = next(event for event in events if isinstance(event, Turn))
    assert recorded in turn.response["content"][0]["text"]


def test_a_wrapped_model_reads_what_an_attack_put_into_its_context() -> None:
    with active_scenario(scenario_with(context_attacks=[{"type": "memory_poisoning", "payload": "lie"}])) as running:
        assert think([{"role": "user", "content": "hi"}]).startswith("2 messages")
        events = running.end("", 0)
    request = next(event for event in events if isinstance(event, Turn)).request
    assert request is not None
    assert request["messages"][0]["content"] == "lie"
