"""Whatever an endpoint replies, it is an answer in the form that was asked for, or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from stream_guard_judge.endpoint import ask

from stream_guard.chat_endpoint import MAX_ANSWER
from stream_guard.judge.ports import Answer
from stream_guard.ports import Question
from tests.judge_end import Asked, JudgeEnd, Replied, completion, verdict

ID = "5f" * 16


def reply_with(make: Callable[[Asked], Replied], timeout: float = 20.0) -> Answer:
    with JudgeEnd(make) as end:
        return ask(Question(rule="Be kind.", text='{"text": "x"}', settings=end.settings(), timeout=timeout, id=ID))


def says(**changed: Any) -> Callable[[Asked], Replied]:
    return lambda asked: Replied(completion(verdict(asked, **changed)))


def content(text: str) -> Callable[[Asked], Replied]:
    return lambda _: Replied(completion(text))


def body(data: bytes, **other: Any) -> Callable[[Asked], Replied]:
    return lambda _: Replied(data, **other)


def without(key: str) -> Callable[[Asked], Replied]:
    return lambda asked: Replied(completion({name: item for name, item in verdict(asked).items() if name != key}))


@pytest.mark.parametrize("violated", [True, False])
def test_an_answer_in_the_form_that_was_asked_for_counts(violated: bool) -> None:
    answer = reply_with(says(violated=violated))
    assert (answer.violated, answer.tokens, answer.is_counted) == (violated, 240, True)
    assert answer.cost_usd == pytest.approx((200 * 3 + 40 * 15) / 1e6)


def test_a_fence_around_the_answer_is_no_harm() -> None:
    answer = reply_with(lambda asked: Replied(completion(f"```json\n{json.dumps(verdict(asked))}\n```")))
    assert answer.violated is True


@pytest.mark.parametrize(
    "make",
    [
        says(violated="true"),
        says(violated=1),
        says(violated=[True]),
        says(violated=None),
        says(confidence="high"),
        says(confidence=2),
        says(confidence=-0.1),
        says(confidence=True),
        says(confidence=None),
        says(explanation=None),
        says(explanation={"text": "x"}),
        says(id="0" * 32),
        says(id=None),
        says(extra="key"),
        without("id"),
        without("violated"),
        without("confidence"),
        without("explanation"),
        content("The rule was kept."),
        content("null"),
        content("[]"),
        content("true"),
        content(""),
        content('{"id": "' + ID + '", "violated": true, "violated": false, "confidence": 1, "explanation": "x"}'),
        content('{"id": "' + ID + '", "violated": true, "confidence": NaN, "explanation": "x"}'),
        content('{"id": "' + ID + '", "violated": tr'),
        content("[" * 100_000),
        body(b""),
        body(b"not JSON"),
        body(b"[]"),
        body(b'{"choices": []}'),
        body(b'{"choices": [{"message": {"tool_calls": []}}]}'),
        body(b'{"choices": [{"message": {"refusal": "no", "content": "{}"}}]}'),
        body(b'{"choices": {"0": {"message": 5}}}'),
        body(b"\xff\xfe\x00"),
        body(b"[" * 200_000),
        body(b'{"choices": [{"message"', promised=5000),
        body(b"x" * (MAX_ANSWER + 1)),
        body(b"{}", status=500),
        body(b"{}", status=401),
        body(b"{}", status=204),
    ],
)
def test_anything_else_is_no_answer(make: Callable[[Asked], Replied]) -> None:
    answer = reply_with(make)
    assert answer.violated is None
    assert answer.explanation


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirection_to_another_host_is_not_followed(status: int) -> None:
    with JudgeEnd() as elsewhere:
        answer = reply_with(body(b"", status=status, headers={"location": f"{elsewhere.url}/chat/completions"}))
        assert elsewhere.asked == []
    assert answer.explanation == f"the judge answered with HTTP status {status}"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({}, 1.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 1.0),
        ({"retry-after": "-5"}, 1.0),
        ({"retry-after": "9" * 400}, 1.0),
        ({"retry-after": "\u0663".encode().decode("latin-1")}, 1.0),
    ],
)
def test_a_busy_endpoint_says_when_to_come_back(headers: dict[str, str], seconds: float) -> None:
    answer = reply_with(body(b"{}", status=429, headers=headers))
    assert (answer.violated, answer.retry_after, answer.is_counted, answer.cost_usd) == (None, seconds, True, 0.0)


def test_an_endpoint_that_does_not_answer_is_left_in_time() -> None:
    released = Event()

    def hold(asked: Asked) -> Replied:
        released.wait()
        return Replied(completion(verdict(asked)))

    with JudgeEnd(hold) as end:
        question = Question(rule="Be kind.", text="{}", settings=end.settings(), timeout=0.2, id=ID)
        answer = ask(question)
        released.set()
    assert (answer.violated, answer.is_counted) == (None, False)


@pytest.mark.parametrize(
    "usage",
    [None, {}, [], {"prompt_tokens": -5, "completion_tokens": 1}, {"prompt_tokens": "5"}, {"prompt_tokens": True}],
)
def test_a_cost_that_is_not_told_is_not_taken_for_nothing(usage: object) -> None:
    def odd(asked: Asked) -> Replied:
        reply = json.loads(completion(verdict(asked)))
        return Replied(json.dumps({**reply, "usage": usage}).encode())

    answer = reply_with(odd)
    assert (answer.violated, answer.is_counted) == (True, False)


def test_nobody_there_costs_nothing_and_is_worth_another_try() -> None:
    with JudgeEnd() as end:
        settings = end.settings()
    answer = ask(Question(rule="Be kind.", text="{}", settings=settings, timeout=20.0, id=ID))
    assert (answer.violated, answer.is_counted, answer.cost_usd) == (None, True, 0.0)
    assert answer.retry_after is not None
