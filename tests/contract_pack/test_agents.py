"""Agents as they are driven: over HTTP and in Python, whatever they answer, and whether they can be reset."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from stream_guard_contract.agents.agent import AgentAnswer, ResetError
from stream_guard_contract.agents.http_agent import HttpAgent
from stream_guard_contract.agents.http_messages import AgentAnswerError, expand, find_answer, parse_fields, render
from stream_guard_contract.agents.python_agent import PythonAgent, load_object
from stream_guard_contract.document import AgentSection
from stream_guard_contract.proxies import HttpThread

from stream_guard.errors import SettingsError
from tests.contract_pack.servers import listen, serving


async def _answer(request: Request) -> Response:
    body = await request.body()
    shown = {
        "method": request.method,
        "query": dict(request.query_params),
        "body": body.decode(),
        "key": request.headers.get("x-key", ""),
    }
    sort = request.path_params["sort"]
    answers: dict[str, Any] = {
        "echo": lambda: JSONResponse({"output": json.dumps(shown)}),
        "deep": lambda: JSONResponse({"choices": [{"message": {"content": "found"}}]}),
        "error": lambda: JSONResponse({"error": "no tools left"}),
        "status": lambda: PlainTextResponse("broken", 500),
        "text": lambda: PlainTextResponse("plain words"),
        "bytes": lambda: Response(b"\xff\xfe", media_type="application/json"),
        "huge": lambda: PlainTextResponse("x" * 9_000_000),
        "drip": lambda: StreamingResponse(_drip(), media_type="text/plain"),
        "moved": lambda: RedirectResponse("/ask/text"),
    }
    answer: Response = answers[sort]()
    return answer


async def _drip() -> AsyncIterator[bytes]:
    while True:
        yield b"."
        await asyncio.sleep(0.05)


async def _reset(request: Request) -> Response:
    return Response(status_code=int(request.path_params["status"]))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    opened, address = listen()
    routes = [
        Route("/ask/{sort}", _answer, methods=["GET", "POST", "PUT", "DELETE"]),
        Route("/reset/{status}", _reset, methods=["POST"]),
    ]
    with serving(Starlette(routes=routes), opened):
        yield address


@pytest.fixture(scope="module")
def http_thread() -> Iterator[HttpThread]:
    running = HttpThread()
    yield running
    running.close()


def ask(url: str, http_thread: HttpThread, sort: str, prompt: str = "hello", **form: Any) -> AgentAnswer:
    agent = HttpAgent(AgentSection.model_validate({"endpoint": f"{url}/ask/{sort}", **form}), http_thread)
    try:
        return agent.ask(prompt)
    finally:
        agent.close()


def test_a_prompt_is_posted_as_input_and_the_output_is_the_answer(url: str, http_thread: HttpThread) -> None:
    answer = ask(url, http_thread, "echo", 'say "hi"')
    assert (answer.error, json.loads(json.loads(answer.text)["body"])) == ("", {"input": 'say "hi"'})


def test_a_template_a_method_a_query_and_headers_are_honoured(
    url: str, http_thread: HttpThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_KEY", "k1")
    form = {
        "method": "PUT",
        "request_template": '{"q": "{prompt}", "for": ["{name}"]}',
        "query_params": {"v": "2"},
        "headers": {"x-key": "${AGENT_KEY}"},
    }
    shown = json.loads(ask(url, http_thread, "echo", 'Name: "Ann"', **form).text)
    assert shown["method"] == "PUT"
    assert shown["query"] == {"v": "2"}
    assert shown["key"] == "k1"
    assert json.loads(shown["body"]) == {"q": 'Name: "Ann"', "for": ['"Ann"']}


def test_a_get_carries_the_prompt_in_its_query(url: str, http_thread: HttpThread) -> None:
    assert json.loads(ask(url, http_thread, "echo", "a b", method="GET").text)["query"] == {"input": "a b"}


def test_an_answer_is_found_where_the_path_says(url: str, http_thread: HttpThread) -> None:
    assert ask(url, http_thread, "deep", response_path="$.choices.0.message.content").text == "found"
    assert "nothing at response_path" in ask(url, http_thread, "deep", response_path="data.result").error


@pytest.mark.parametrize(
    ("sort", "error"),
    [
        ("error", "no tools left"),
        ("status", "HTTP 500: broken"),
        ("huge", "longer than"),
        ("moved", "HTTP 307"),
    ],
)
def test_an_agent_that_fails_gives_an_error_that_says_how(
    url: str, http_thread: HttpThread, sort: str, error: str
) -> None:
    answer = ask(url, http_thread, sort)
    assert answer.text == ""
    assert error in answer.error


def test_text_and_broken_bytes_are_answers(url: str, http_thread: HttpThread) -> None:
    assert ask(url, http_thread, "text").text == "plain words"
    assert ask(url, http_thread, "bytes").text == "\ufffd\ufffd"


def test_the_time_of_an_agent_is_for_all_of_its_answer(url: str, http_thread: HttpThread) -> None:
    began = time.perf_counter()
    answer = ask(url, http_thread, "drip", timeout=1000)
    assert "did not answer in 1000 ms" in answer.error
    assert time.perf_counter() - began < 5


def test_an_agent_that_is_not_there_is_an_error(http_thread: HttpThread) -> None:
    opened, address = listen()
    opened.close()
    assert "cannot be reached" in ask(address, http_thread, "text").error


def test_a_reset_that_is_not_2xx_is_an_error(url: str, http_thread: HttpThread) -> None:
    def reset(where: str) -> None:
        agent = HttpAgent(AgentSection(endpoint=f"{url}/ask/text", reset_endpoint=where), http_thread)
        try:
            agent.reset()
        finally:
            agent.close()

    reset("/reset/204")
    reset(f"{url}/reset/200")
    for status in (302, 404, 500):
        with pytest.raises(ResetError, match=f"HTTP status {status}"):
            reset(f"/reset/{status}")
    opened, gone = listen()
    opened.close()
    with pytest.raises(ResetError, match="failed"):
        reset(f"{gone}/reset")


@pytest.mark.parametrize("endpoint", ["ftp://x", "nonsense", "http://", "http://x:99999999/"])
def test_an_endpoint_that_is_no_address_is_refused(http_thread: HttpThread, endpoint: str) -> None:
    with pytest.raises(SettingsError, match=r"agent\.endpoint"):
        HttpAgent(AgentSection(endpoint=endpoint), http_thread)


def test_a_variable_that_is_not_set_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"\$NOT_SET_ANYWHERE"):
        expand("http://$NOT_SET_ANYWHERE/", "agent.endpoint", {})
    assert expand("http://${A}:$B/", "agent.endpoint", {"A": "h", "B": "1"}) == "http://h:1/"


def test_a_prompt_that_looks_like_a_template_is_not_one() -> None:
    assert render('{"a": "{prompt}"}', "{name} Name: x", structured=True) == {"a": "{name} Name: x"}
    assert render("q={prompt}", "a\nb: c", structured=True) == "q=a\nb: c"
    assert parse_fields("User Name: Ann\nAge = 3\nnothing\nCity - Bonn") == {
        "username": "Ann",
        "age": "3",
        "city": "Bonn",
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["output", "error", "a", "success"]), inner),
    ),
    st.none() | st.text(),
)
def test_no_answer_breaks_the_search_for_it(data: Any, path: str | None) -> None:
    with suppress(AgentAnswerError):
        assert isinstance(find_answer(data, path), str)


class Weird:
    """An agent with a state, and entries of every sort."""

    asked = 0

    def invoke(self, prompt: str) -> dict[str, str]:
        return {"output": f"invoked with {prompt}"}


def plain(prompt: str) -> str:
    return prompt.upper()


async def later(prompt: str) -> str:
    await asyncio.sleep(0)
    return prompt.upper()


def leave(_prompt: str) -> str:
    raise SystemExit(3)


def time_out(_prompt: str) -> str:
    raise TimeoutError("of my own")


def hang(prompt: str) -> str:
    if prompt == "hang":
        time.sleep(2)
    return "back"


def fail_to_reset() -> None:
    raise RuntimeError("stuck")


def python(name: str, **form: Any) -> PythonAgent:
    return PythonAgent(AgentSection.model_validate({"endpoint": f"{__name__}:{name}", "type": "python", **form}))


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("plain", "HI", ""),
        ("later", "HI", ""),
        ("Weird", "invoked with hi", ""),
        ("leave", "", "SystemExit: 3"),
        ("time_out", "", "TimeoutError: of my own"),
    ],
)
def test_a_python_agent_is_any_callable_and_its_failures_are_errors(name: str, text: str, error: str) -> None:
    agent = python(name)
    answer = agent.ask("hi")
    agent.close()
    assert (answer.text, answer.error) == (text, error)


def test_a_python_agent_that_is_never_asked_has_no_thread() -> None:
    before = threading.active_count()
    agent = python("plain")
    assert threading.active_count() == before
    agent.close()


def test_a_python_agent_that_hangs_is_abandoned_and_the_next_prompt_is_answered() -> None:
    agent = python("hang", timeout=1000)
    assert "did not answer in 1000 ms" in agent.ask("hang").error
    assert agent.ask("hi").text == "back"
    agent.close()


def test_a_reset_function_that_raises_is_an_error() -> None:
    agent = python("plain", reset_function=f"{__name__}:fail_to_reset")
    with pytest.raises(ResetError, match="RuntimeError: stuck"):
        agent.reset()
    agent.close()


@pytest.mark.parametrize("name", ["no_such_module:x", "json:no_such_name", "json", ":x", "json:"])
def test_a_name_that_leads_nowhere_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"agent\.endpoint"):
        load_object(name, "agent.endpoint")
