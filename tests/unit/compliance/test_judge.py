"""The judge, against a real endpoint on loopback that says what a script tells it to."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import pytest
from stream_guard_compliance import ComplianceResult, check_compliance

import stream_guard as sg
from stream_guard.registry import build_registry
from stream_guard.settings import JudgeSettings, Settings

REGISTRY = build_registry()
TRACE = [{"type": "agent_message", "content": "Go away."}]


class Endpoint(ThreadingHTTPServer):
    """Answers chat completions with what ``reply`` returns, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, reply: Callable[[dict[str, Any]], bytes], status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.status = reply, status
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.open = self.most_open = 0
        self.lock = Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(body)
            self.server.headers.append(dict(self.headers))
            self.server.open += 1
            self.server.most_open = max(self.server.most_open, self.server.open)
        reply = self.server.reply(body)
        with self.server.lock:
            self.server.open -= 1
        try:
            self.send_response(self.server.status)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)
        except OSError:
            pass  # the client did not wait

    def log_message(self, *_said: object) -> None:
        """Keep standard error clean."""


@contextmanager
def endpoint(reply: Callable[[dict[str, Any]], bytes], status: int = 200) -> Iterator[Endpoint]:
    server = Endpoint(reply, status)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def says(content: str | None, **message: Any) -> bytes:
    choice = {"message": {"role": "assistant", "content": content, **message}}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 20}}).encode()


def verdict(violated: bool | None, confidence: float = 0.9) -> bytes:
    return says(json.dumps({"violated": violated, "confidence": confidence, "explanation": "Event 0 is rude."}))


def check(url: str, prompt: str = "Be friendly.", seconds: float = 20.0, **judge: Any) -> ComplianceResult:
    settings = Settings(judge=JudgeSettings(url=url, model="m", input_price=10.0, output_price=50.0, **judge))
    return asyncio.run(check_compliance(prompt, TRACE, timeout=seconds, settings=settings, registry=REGISTRY))


def test_violation_that_the_judge_finds_is_reported_with_tokens_and_cost() -> None:
    with endpoint(lambda _: verdict(True)) as server:
        result = check(server.url)
    assert (result.detected, result.confidence, result.violations[0].evidence) == (True, 0.9, "Event 0 is rude.")
    assert (result.tokens_used, round(result.cost_usd, 6)) == (120, 0.002)
    assert result.verdicts[0].by == "judge"


def test_rule_that_the_judge_finds_kept_is_satisfied() -> None:
    with endpoint(lambda _: verdict(False)) as server:
        assert check(server.url).verdict == "satisfied"


def test_each_open_rule_is_one_question_and_concrete_ones_are_none() -> None:
    with endpoint(lambda _: verdict(False)) as server:
        check(server.url, "Be friendly. Never call drop_table. Never guess.")
    questions = sorted(body["messages"][1]["content"].split("\n")[1] for body in server.asked)
    assert questions == ["Be friendly.", "Never guess."]
    assert all("Go away." in body["messages"][1]["content"] for body in server.asked)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (says("It was fine."), "not the JSON object"),
        (says('{"violated": "no", "confidence": 1}'), "true or false"),
        (says('{"violated": false}'), "confidence"),
        (says('{"violated": false, "confidence": 7}'), "confidence"),
        (says("[]"), "true or false"),
        (says(None, refusal="I cannot help with that."), "refused"),
        (says(""), "no text"),
        (says(json.dumps({"violated": None, "confidence": 0, "explanation": "unclear"})), "could not tell: unclear"),
        (b"<html>", "not JSON"),
        (b"{}", "no text"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_answer_that_is_not_clear_is_not_evaluated_and_never_compliant(reply: bytes, reason: str) -> None:
    with endpoint(lambda _: reply) as server:
        result = check(server.url)
    assert (result.detected, result.verdict) == (False, "inconclusive")
    assert reason in result.not_evaluated[0].reason


def test_tokens_of_a_useless_answer_are_counted() -> None:
    with endpoint(lambda _: says("maybe")) as server:
        assert check(server.url).tokens_used == 120


def test_error_status_is_not_evaluated() -> None:
    with endpoint(lambda _: verdict(False), status=500) as server:
        result = check(server.url)
    assert result.verdict == "inconclusive"
    assert "HTTP status 500" in result.not_evaluated[0].reason


def test_endpoint_that_is_away_is_not_evaluated() -> None:
    result = check("http://127.0.0.1:1/v1")
    assert result.verdict == "inconclusive"
    assert "cannot be reached" in result.not_evaluated[0].reason


def test_time_is_for_all_questions_together() -> None:
    release = Event()

    def wait(_body: dict[str, Any]) -> bytes:
        release.wait(30)
        return verdict(False)

    with endpoint(wait) as server:
        began = time.monotonic()
        result = check(server.url, "Be friendly. Never guess. Be kind. Be brief.", seconds=0.5, concurrency=1)
        took = time.monotonic() - began
        release.set()
    assert took < 5
    assert result.verdict == "inconclusive"
    assert [verdict.verdict for verdict in result.verdicts] == ["inconclusive"] * 4
    assert all("in time" in left.reason for left in result.not_evaluated)


def test_no_more_questions_are_open_than_the_setting_allows() -> None:
    def slowly(_body: dict[str, Any]) -> bytes:
        Event().wait(0.05)
        return verdict(False)

    with endpoint(slowly) as server:
        result = check(server.url, " ".join(f"Be kind to guest {n}." for n in range(8)), concurrency=2)
    assert result.verdict == "satisfied"
    assert (len(server.asked), server.most_open <= 2) == (8, True)


def test_same_question_is_paid_for_once(tmp_path: Path) -> None:
    with endpoint(lambda _: verdict(True)) as server:
        first = check(server.url, cache=tmp_path / "answers")
        again = check(server.url, cache=tmp_path / "answers")
    assert len(server.asked) == 1
    assert first.violations == again.violations
    assert (first.tokens_used, again.tokens_used, again.cost_usd) == (120, 0, 0.0)


def test_answer_that_is_not_clear_is_asked_again(tmp_path: Path) -> None:
    with endpoint(lambda _: says("maybe")) as server:
        for _ in range(2):
            check(server.url, cache=tmp_path)
    assert len(server.asked) == 2


def test_broken_file_in_the_cache_is_asked_again(tmp_path: Path) -> None:
    with endpoint(lambda _: verdict(True)) as server:
        check(server.url, cache=tmp_path)
        for file in tmp_path.iterdir():
            file.write_text('{"violated": 0}')
        assert check(server.url, cache=tmp_path).detected
    assert len(server.asked) == 2


def test_key_comes_from_a_file(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("abc\n")
    with endpoint(lambda _: verdict(False)) as server:
        check(server.url, api_key_file=key)
    assert (
        server.headers[0]["authorization" if "authorization" in server.headers[0] else "Authorization"] == "Bearer abc"
    )


def test_trace_that_had_to_be_cut_is_not_compliant() -> None:
    with endpoint(lambda _: verdict(False)) as server:
        result = check(server.url, max_characters=10)
    assert result.verdict == "inconclusive"
    assert "only the beginning" in result.not_evaluated[0].reason


def test_judge_that_raises_is_not_evaluated() -> None:
    class Broken:
        @sg.hookimpl(tryfirst=True)
        def stream_guard_judge(self, question: sg.Question) -> sg.Answer | None:
            raise RuntimeError("no model")

    registry = build_registry(extra=[Broken()])
    result = asyncio.run(check_compliance("Be friendly.", TRACE, settings=Settings(), registry=registry))
    assert result.verdict == "inconclusive"
    assert "no model" in result.not_evaluated[0].reason
