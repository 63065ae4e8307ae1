"""Records that strict readers refuse: what a tool gets is read, and a call that cannot be decoded is an attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_guard.decoding.json_decoder import read_odd_json
from stream_guard.decoding.reader import EventReader, lost_call
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, ToolCall, ToolResult, Turn
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry

REGISTRY = build_registry()
HEAD = '{"kind":"tool_call","session_id":"s","event_id":"e1","tool":"refund","args":'


class Letters:
    """Dead letters, kept in a list."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def add(self, record: Record, reason: str) -> None:
        del record
        self.reasons.append(reason)


def read(text: str | bytes) -> tuple[list[Event], list[str]]:
    letters = Letters()
    reader = EventReader(REGISTRY.decoders["native"](), letters)
    value = text if isinstance(text, bytes) else text.encode()
    return list(reader.read(Record(value=value))), letters.reasons


def found(event: Event) -> list[str]:
    policy = load_policy(
        json.dumps({"rules": [{"id": "r", "kind": "no_call", "params": {"tool": "refund"}}]}), REGISTRY, file="p.json"
    )
    return sorted(finding.rule_id for finding in Judge(policy).feed(event).findings)


@pytest.mark.parametrize(
    ("args", "read_as"),
    [
        ('{"a":Infinity}', {"a": float("inf")}),
        ('{"a":[{"b":-Infinity}]}', {"a": [{"b": -float("inf")}]}),
        ('{"a":1e999}', {"a": float("inf")}),
        ('{"a":"\\ud800"}', {"a": "\ufffd"}),
        ('{"a":1,"a":1}', {"a": 1}),
    ],
)
def test_odd_arguments_with_one_reading_are_read(args: str, read_as: Any) -> None:
    [event], letters = read(HEAD + args + "}")
    assert isinstance(event, ToolCall)
    assert (event.args, letters, found(event)) == (read_as, [], ["r"])


@pytest.mark.parametrize("args", ['{"a":1,"a":2}', '{"x":{"a":1,"a":2}}', '{"x":[1,{"a":1,"a":2}]}'])
def test_arguments_with_a_key_twice_are_kept_as_text_and_contested(args: str) -> None:
    [event], letters = read(HEAD + args + "}")
    assert (letters, found(event)) == ([], ["r", "stream_guard_contested_call"])


def test_a_block_of_a_turn_with_a_key_twice_in_its_input_is_contested() -> None:
    block = '{"type":"tool_use","id":"c","name":"refund","input":{"a":1,"a":2}}'
    [event], letters = read(f'{{"kind":"turn","session_id":"s","event_id":"t","response":{{"content":[{block}]}}}}')
    assert isinstance(event, Turn)
    assert (letters, found(event)) == ([], ["r", "stream_guard_contested_call"])


def test_an_output_with_a_key_twice_keeps_both_values_for_text_rules() -> None:
    [event], _ = read('{"kind":"tool_result","session_id":"s","event_id":"r","output":{"a":"ignore","a":"x"}}')
    assert isinstance(event, ToolResult)
    assert isinstance(event.output, str)
    assert "ignore" in event.output


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"tool_call","session_id":"a","session_id":"s","tool":"refund"}',
        '{"kind":"tool_call","session_id":"s","tool":"refund","time":NaN}',
        '{"kind":"tool_call","session_id":"s","tool":"refund","args":{"a":1}',
        '{"kind":"tool_call","session_id":"s","tool":"refund","agent":5}',
        '{"kind":"tool_call","session_id":"s","tool":"refund","args":' + "[" * 300 + "]" * 300 + "}",
        b'{"kind":"tool_call","session_id":"s","tool":"refund","args":{"a":"\xe9"}}',
    ],
)
def test_a_call_that_cannot_be_decoded_is_a_dead_letter_and_a_finding_in_its_session(text: str | bytes) -> None:
    [event], letters = read(text)
    assert (event.session_id, len(letters)) == ("s", 1)
    assert found(event) == ["r", "stream_guard_contested_call"]


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"turn","session_id":"s","response":{"a":NaN}}',
        '{"kind":"tool_call","session_id":"","tool":"x"}',
        '{"kind":"tool_call","session_id":"\\u0000ended","tool":"x"}',
        '{"kind":"tool_call","session_id":5,"tool":"x"}',
        '{"kind":"tool_call","tool":"x"}',
        f'{{"kind":"tool_call","session_id":"{"s" * 600}","tool":"x"}}',
    ],
)
def test_what_names_no_call_or_no_session_is_only_a_dead_letter(text: str) -> None:
    events, letters = read(text)
    assert (events, len(letters)) == ([], 1)


def test_an_odd_number_that_no_tool_gets_is_refused() -> None:
    for text in ('{"time": NaN}', '{"usage": {"n": 1e999}}', '{"a": 1, "a": 2}', '{"content": [{"a": 1, "a": 2}]}'):
        with pytest.raises(ValueError, match=r"."):
            read_odd_json(text.encode())


def test_hostile_records_are_searched_in_linear_time() -> None:
    text = b'"tool_call" "session_id": "' + b"\\" * 200_000
    assert lost_call(Record(value=text), "broken") is None
