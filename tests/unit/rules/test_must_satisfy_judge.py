"""``must_satisfy_judge`` shows a judge a bounded excerpt without secrets, and an answer decides."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import stream_guard as sg
from stream_guard.judge.content import NO_CONTENT
from stream_guard.judge.ports import Answer
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.testing import events, one_rule_policy

REGISTRY = build_registry()
KIND = REGISTRY.kinds["must_satisfy_judge"]
REFUNDS = {"rule": "Refunds need a reason.", "tool": "refund"}


class Told:
    """Answers as they are given here, and every question that is open."""

    asks = True

    def __init__(self, *, violated: bool | None = None) -> None:
        self.violated = violated

    def find(self, digest: str) -> Answer | None:
        del digest
        return None if self.violated is None else Answer(violated=self.violated, confidence=0.8, explanation="so")


def questions(trace: list[Any], params: dict[str, Any], session: str = "s") -> list[sg.Inquiry]:
    found = sg.evaluate(events(trace, session), one_rule_policy(KIND, params), answers=Told())
    return [finding.inquiry for finding in found if finding.inquiry is not None]


def shown(inquiry: sg.Inquiry) -> list[dict[str, Any]]:
    return [json.loads(line) for line in inquiry.excerpt]


def test_the_judge_is_shown_the_event_and_the_few_before_it() -> None:
    trace = [{"user": f"message {number}"} for number in range(5)] + [{"call": "refund", "args": {"amount": 9}}]
    [inquiry] = questions(trace, {**REFUNDS, "last": 2})
    assert shown(inquiry) == [
        {"event": "user_message", "text": "message 3"},
        {"event": "user_message", "text": "message 4"},
        {"event": "tool_call", "tool": "refund", "args": {"amount": 9}, "asked": True},
    ]


@pytest.mark.parametrize("last", [0, 1, 20])
def test_an_excerpt_is_never_longer_than_it_may_be(last: int) -> None:
    wide = {f"key {number}": "é\U0001f600" * 3000 for number in range(300)}
    trace = [{"user": "\U0001f600" * 9000}, {"turn": '"' * 9000}, {"call": "refund", "args": wide}] * 8
    for inquiry in questions(trace, {**REFUNDS, "last": last, "max_characters": 2400}):
        assert sum(map(len, inquiry.excerpt)) <= 2400
        assert len(shown(inquiry)) <= last + 1


def test_secrets_are_neither_shown_nor_remembered() -> None:
    key = "sk-proj-" + "a1B2c3D4" * 6
    trace = [
        {"user": f"my key is {key}"},
        {"call": "login", "args": {"password": "hunter2-and-more", "note": key}, "id": "a"},
        {"result": "login", "id": "a", "output": {"token": key}},
        {"turn": f"I use {key}."},
        {"call": "refund", "args": {"api_key": key, "amount": 5}},
    ]
    [inquiry] = questions(trace, REFUNDS)
    text = "\n".join(inquiry.excerpt)
    assert "a1B2c3D4" not in text
    assert "hunter2" not in text
    assert "masked" in text


def test_the_same_happening_in_another_session_is_the_same_question() -> None:
    trace = [{"user": "my money back", "at": 5}, {"call": "refund", "args": {"amount": 9}, "id": "x"}]
    later = [{"user": "my money back", "at": 99}, {"call": "refund", "args": {"amount": 9}, "id": "y"}]
    other = [{"user": "my money back"}, {"call": "refund", "args": {"amount": 10}}]
    digests = [questions(one, REFUNDS, f"s{number}")[0].digest for number, one in enumerate((trace, later, other))]
    assert digests[0] == digests[1] != digests[2]


def test_other_words_are_another_question() -> None:
    trace = [{"call": "refund", "args": {}}]
    [one], [two] = (questions(trace, {**REFUNDS, "rule": rule}) for rule in ("Be kind.", "Be quick."))
    assert one.digest != two.digest


def test_an_attempt_that_was_refused_and_comes_again_is_the_same_question() -> None:
    call = {"call": "refund", "args": {"amount": 9}}
    trace = [{"user": "hello"}, {**call, "id": "a"}, {"decision": "pause", "id": "a"}, {**call, "id": "b"}]
    one, two = questions(trace, REFUNDS)
    assert one.digest == two.digest


@pytest.mark.parametrize(("violated", "hits"), [(True, 1), (False, 0)])
def test_the_answer_decides(violated: bool, hits: int) -> None:
    policy = one_rule_policy(KIND, REFUNDS)
    found = sg.evaluate(events([{"call": "refund", "args": {}}]), policy, answers=Told(violated=violated))
    assert len(found) == hits
    assert all(
        one.evidence["judge"] == {"says": "broken", "confidence": 0.8, "why": "so", "inquiry": ""} for one in found
    )


def test_content_that_was_not_captured_cannot_be_judged() -> None:
    [call] = events([{"call": "refund", "args": None}])
    counts = sg.Counts()
    sg.evaluate([msgspec.structs.replace(call, captured=False)], one_rule_policy(KIND, REFUNDS), counts=counts)
    assert dict(counts.lacking) == {("rule", NO_CONTENT): 1}


@pytest.mark.parametrize("extra", ["set_labels: {seen: yes}", "then: modify\n    modify: [{path: amount, cap: 5}]"])
def test_what_is_done_at_the_event_cannot_wait_for_a_judge(extra: str) -> None:
    text = f"rules:\n  - id: a\n    kind: must_satisfy_judge\n    params: {{rule: Be kind.}}\n    {extra}\n"
    with pytest.raises(sg.PolicyError, match="before a judge has answered"):
        load_policy(text, REGISTRY, file="policy.yaml")
