"""The model proxy with a real model server behind it: whole and streamed, with and without faults."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from stream_guard_contract.completions import (
    Completion,
    CompletionCall,
    read_completion,
    read_stream,
    write_completion,
    write_stream,
)
from stream_guard_contract.driver import AgentDriver
from stream_guard_contract.faults import GARBAGE

from stream_guard.judge.model import Event, Turn
from tests import plain_http
from tests.contract_pack.scenario_runs import active_scenario, answer_of, met, run_one, scenario_with
from tests.contract_pack.servers import Market, market, proxied
from tests.parts import import_part

TEXT = " ".join(f"w{number}" for number in range(1, 21))
CALL = CompletionCall(id="call_7", name="pay", arguments='{"name": "x"}')


class Model:
    """A model that answers by what it is asked, and remembers what that was."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def complete(self, request: Request) -> Response:
        try:
            asked = json.loads(await request.body())
        except ValueError:
            return JSONResponse({"error": {"message": "not JSON"}}, 400)
        self.asked.append(asked)
        last = asked["messages"][-1]["content"]
        said = Completion(text=TEXT, finish="stop", model="m", id="i", input_tokens=3, output_tokens=20)
        if last == "call":
            said = Completion(calls=[CALL], finish="tool_calls", model="m", id="i")
        if last == "fail":
            return JSONResponse({"error": {"message": "overloaded"}}, 529)
        if last == "nonsense":
            return Response(b"\x00not json", media_type="application/json")
        if last == "break":
            return StreamingResponse(_broken(), media_type="text/event-stream")
        if asked.get("stream"):
            return StreamingResponse(iter(list(write_stream(said))), media_type="text/event-stream")
        return Response(write_completion(said), media_type="application/json")

    async def models(self, _request: Request) -> Response:
        return JSONResponse({"data": [{"id": "m"}]})


async def _broken() -> AsyncIterator[bytes]:
    yield next(write_stream(Completion(text="half")))
    raise ConnectionAbortedError


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def driver(model: Model) -> Iterator[AgentDriver]:
    routes = [Route("/v1/chat/completions", model.complete, methods=["POST"]), Route("/v1/models", model.models)]
    with proxied(Starlette(routes=routes), model="/v1") as running:
        yield running


def ask(
    driver: AgentDriver, text: str = "hello", *, stream: bool = False, **faults: Any
) -> tuple[httpx.Response, list[Event]]:
    body = {
        "model": "m",
        "stream": stream,
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": text}],
    }
    with active_scenario(scenario_with(**faults)) as running:
        answer = plain_http.post(f"{driver.url}/v1/chat/completions", json=body, timeout=60)
        return answer, running.end("", 0)


def said_by(answer: httpx.Response, *, stream: bool) -> Completion:
    said = read_stream(answer.content) if stream else read_completion(answer.content)
    assert said is not None
    return said


def turn_of(events: list[Event]) -> Turn:
    return next(event for event in events if isinstance(event, Turn))


@pytest.mark.parametrize("stream", [False, True])
def test_without_faults_the_answer_passes_unchanged_and_is_recorded(driver: AgentDriver, *, stream: bool) -> None:
    answer, events = ask(driver, stream=stream)
    assert said_by(answer, stream=stream).text == TEXT
    turn = turn_of(events)
    assert turn.response["content"] == [{"type": "text", "text": TEXT}]
    assert turn.labels == {"contract_role": "model"}
    assert turn.request is not None
    assert turn.request["messages"][1]["content"] == "hello"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"mode": "truncated_response", "max_tokens": 3}, "w1 w2 w3"),
        ({"mode": "empty"}, ""),
        ({"mode": "garbage"}, GARBAGE),
        (
            {"mode": "response_drift", "drift_type": "verbosity_shift", "direction": "compress"},
            "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10",
        ),
    ],
)
def test_a_degraded_answer_is_what_the_agent_gets_and_what_is_recorded(
    driver: AgentDriver, fault: dict[str, Any], text: str, *, stream: bool
) -> None:
    answer, events = ask(driver, stream=stream, llm_faults=[fault])
    assert said_by(answer, stream=stream).text == text
    assert "".join(block["text"] for block in turn_of(events).response["content"]) == text
    assert met(events) == {f"llm_faults/0/{fault['mode']}"}


def test_a_rate_limit_is_an_error_that_clients_know_and_the_model_is_not_asked(
    driver: AgentDriver, model: Model
) -> None:
    model.asked.clear()
    answer, events = ask(driver, llm_faults=[{"mode": "rate_limit"}])
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert model.asked == []
    assert turn_of(events).response["error"] == "Rate limit exceeded"


def test_a_timeout_takes_its_time_and_then_fails(driver: AgentDriver, model: Model) -> None:
    model.asked.clear()
    answer, events = ask(driver, llm_faults=[{"mode": "timeout", "delay_ms": 150}])
    assert (answer.status_code, model.asked) == (504, [])
    assert turn_of(events).response["latency_ms"] >= 150


def test_a_timeout_that_the_agent_does_not_wait_for_was_met(driver: AgentDriver) -> None:
    with active_scenario(scenario_with(llm_faults=[{"mode": "timeout"}])) as running:
        body = {"messages": [{"role": "user", "content": "hello"}]}
        with pytest.raises(httpx.ReadTimeout):
            plain_http.post(f"{driver.url}/v1/chat/completions", json=body, timeout=2)
        events = running.end("", 0)
    assert met(events) == {"llm_faults/0/timeout"}
    assert turn_of(events).response["error"] == "the agent did not wait for the answer"


def test_a_fault_that_finds_nothing_to_change_is_not_met(driver: AgentDriver) -> None:
    answer, events = ask(driver, llm_faults=[{"mode": "truncated_response", "max_tokens": 500}])
    assert said_by(answer, stream=False).text == TEXT
    assert met(events) == set()


def test_calls_of_tools_lose_their_names_in_a_drift_and_go_in_an_empty_answer(driver: AgentDriver) -> None:
    answer, _ = ask(driver, "call", llm_faults=[{"mode": "response_drift"}])
    assert said_by(answer, stream=False).calls == [
        CompletionCall(id="call_7", name="pay", arguments='{"name_v2": "x"}')
    ]
    answer, _ = ask(driver, "call", stream=True, llm_faults=[{"mode": "empty"}])
    assert said_by(answer, stream=True).calls == []


@pytest.mark.parametrize("kind", ["overflow", "conflicting_context", "injection_via_context", "memory_poisoning"])
def test_an_attack_on_the_context_stands_among_the_messages_the_model_gets(
    driver: AgentDriver, model: Model, kind: str
) -> None:
    model.asked.clear()
    _, events = ask(driver, context_attacks=[{"type": kind, "payload": "a lie"}])
    contents = [message["content"] for message in model.asked[0]["messages"]]
    assert (contents[0], contents[2]) == ("s", "hello")
    assert contents[1] == "a lie" if kind != "overflow" else len(contents[1].split()) == 4096
    assert met(events) == {f"context_attacks/0/{kind}"}


@pytest.mark.parametrize("fault", [[], [{"mode": "truncated_response"}]])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["fail", "nonsense", "break"])
def test_a_model_that_fails_is_recorded_and_never_stops_the_proxy(
    driver: AgentDriver, text: str, fault: list[Any], *, stream: bool
) -> None:
    try:
        ask(driver, text, stream=stream, llm_faults=fault)
    except httpx.RemoteProtocolError:
        pytest.fail("the proxy broke the connection")
    answer, _ = ask(driver)
    assert said_by(answer, stream=False).text == TEXT


def test_what_is_no_completion_is_forwarded(driver: AgentDriver) -> None:
    with active_scenario(scenario_with(llm_faults=[{"mode": "garbage"}])) as running:
        answer = plain_http.get(f"{driver.url}/v1/models")
        bad = plain_http.post(f"{driver.url}/v1/chat/completions", content=b"{")
        assert answer.json() == {"data": [{"id": "m"}]}
        assert bad.status_code == 400, "the model's own refusal"
        assert met(running.end("", 0)) == set()


def test_a_call_the_model_asked_for_and_the_call_of_the_tool_are_one_attempt(driver: AgentDriver) -> None:
    with active_scenario(scenario_with()) as running:
        body = {"messages": [{"role": "user", "content": "call"}]}
        plain_http.post(f"{driver.url}/v1/chat/completions", json=body)
        call = running.begin_tool_call("pay", {"name": "x"})
        running.end_tool_call(call, "ok")
        running.end("", 0)
    assert call.call_id == "call_7"


def test_the_sample_agent_over_http_meets_faults_of_its_model() -> None:
    with market() as sample:
        assert isinstance(sample, Market)
        calm = run_one(sample.driver, scenario_with())
        garbage = run_one(sample.driver, scenario_with(llm_faults=[{"mode": "garbage", "after_calls": 3}]))
        limited = run_one(sample.driver, scenario_with(llm_faults=[{"mode": "rate_limit"}]))
    assert "$123.45" in answer_of(calm)
    assert answer_of(garbage) == GARBAGE
    assert met(limited) == {"llm_faults/0/rate_limit"}
    assert answer_of(limited) == ""


def test_the_client_that_agents_use_reads_every_answer_of_the_proxy(driver: AgentDriver) -> None:
    openai = import_part("openai")
    chat: Any = [{"role": "user", "content": "hello"}]
    with openai.OpenAI(base_url=f"{driver.url}/v1", api_key="none", max_retries=0) as client:
        for fault, text in (([], TEXT), ([{"mode": "truncated_response", "max_tokens": 2}], "w1 w2")):
            with active_scenario(scenario_with(llm_faults=fault)):
                whole = client.chat.completions.create(model="m", messages=chat)
                pieces = list(client.chat.completions.create(model="m", messages=chat, stream=True))
            assert whole.choices[0].message.content == text
            assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == text
        with active_scenario(scenario_with(llm_faults=[{"mode": "rate_limit"}])), pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="m", messages=chat)
        with active_scenario(scenario_with(llm_faults=[{"mode": "response_drift"}])):
            called = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "call"}])
        assert called.choices[0].message.tool_calls[0].function.arguments == '{"name_v2": "x"}'
