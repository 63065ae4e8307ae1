"""The native format: what becomes an event, what is refused, and with which words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from stream_guard_formats.native.decoder import MAX_ID, NativeDecoder

from stream_guard import DecodeError, Event, Record, ToolCall, Turn, UserMessage


def decode(value: bytes | dict[str, Any], *, strict_keys: bool = True) -> Event:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    [event] = NativeDecoder(strict_keys=strict_keys).decode(Record(raw))
    return event


def call(**fields: Any) -> dict[str, Any]:
    return {"kind": "tool_call", "session_id": "s", "event_id": "e", "tool": "t", **fields}


def test_every_field_of_an_event_is_read() -> None:
    event = decode(call(time=12.5, labels={"env": "prod"}, agent_path=["root"], args={"amount": 3}, call_id="c"))
    assert event == ToolCall(
        session_id="s",
        event_id="e",
        time=12.5,
        labels={"env": "prod"},
        agent_path=("root",),
        tool="t",
        call_id="c",
        args={"amount": 3},
    )


@pytest.mark.parametrize("blank", [b"", b"   ", b"\r", b"\xef\xbb\xbf", b"\t\n"])
def test_a_blank_line_is_no_event(blank: bytes) -> None:
    assert NativeDecoder().decode(Record(blank)) == []


def test_an_unknown_field_is_ignored() -> None:
    assert decode({"kind": "user_message", "session_id": "s", "event_id": "e", "new": {"x": 1}}) == UserMessage(
        session_id="s", event_id="e"
    )


REFUSED = [
    (b"{", "ends too early"),
    (b"hello", "not JSON"),
    (b"[]", "an event is a JSON object, this is an array"),
    (b"5", "this is a number"),
    (b'{"session_id":"s"}', 'no "kind"'),
    (b'{"kind":5,"session_id":"s"}', '"kind" must be a string'),
    (b'{"kind":"tool_cal","session_id":"s"}', "did you mean 'tool_call'"),
    (b'{"kind":"xyzzy","session_id":"s"}', "known kinds: user_message, turn, tool_call"),
    (b'{"kind":"turn"}', 'no "session_id"'),
    (b'{"kind":"turn","sesion_id":"s"}', "it has 'sesion_id': did you mean \"session_id\"?"),
    (b'{"kind":"turn","session_id":""}', '"session_id" is empty'),
    (b'{"kind":"turn","session_id":7}', '"session_id" must be a string, not a whole number'),
    (b'{"kind":"turn","session_id":"s","labels":{"a":5}}', '"labels[...]" must be a string'),
    (b'{"kind":"tool_call","session_id":"s"}', 'no "tool", which "tool_call" needs'),
    (b'{"kind":"tool_result","session_id":"s","status":"fine"}', "must be one of ok, error, blocked"),
    (b'{"kind":"turn","session_id":"s"} {}', "something follows the event"),
    (b'{"kind":"turn","session_id":"s","x":NaN}', "NaN and Infinity are not JSON"),
    (b'{"kind":"turn","session_id":"s","time":-Infinity}', "NaN and Infinity are not JSON"),
    (b'{"kind":"turn","session_id":"s","response":{"x":1e400}}', "a number is too large"),
    (b'{"kind":"turn","session_id":"s","response":{"x":' + b"9" * 5000 + b"}}", "a number is too large"),
    (b'{"kind":"turn","session_id":"\\ud800"}', "half of a surrogate pair"),
    (b'{"kind":"turn","session_id":"\xff"}', "not UTF-8"),
    ('{"kind":"turn","session_id":"s"}'.encode("utf-16"), "not JSON"),
    (b'{"kind":"turn","session_id":"a\nb"}', "control character"),
    (b'{"kind":"turn","session_id":"s","time":-1}', "seconds since 1970"),
    (b'{"kind":"turn","session_id":"s","time":1700000000000}', "divide milliseconds by 1000"),
    (b'{"kind":"turn","session_id":"s","time":true}', '"time" must be a number or null'),
    (b'{"kind":"turn","session_id":"s","time":"yesterday"}', "RFC 3339"),
    (b'{"kind":"turn","session_id":"s","time":"2026-01-31T12:00:00"}', "RFC 3339"),
    (b'{"kind":"turn","session_id":"s","time":"2026-02-31T12:00:00Z"}', "no date that exists"),
    (b'{"kind":"turn","session_id":"' + b"s" * (MAX_ID + 1) + b'"}', f"the longest allowed has {MAX_ID}"),
    (b'{"kind":"turn","session_id":"s","event_id":"' + b"e" * (MAX_ID + 1) + b'"}', '"event_id" has 513 characters'),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED)
@pytest.mark.parametrize("strict_keys", [True, False])
def test_what_is_refused_is_refused_with_its_reason(value: bytes, reason: str, *, strict_keys: bool) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(value, strict_keys=strict_keys)
    assert reason in str(refused.value)


@pytest.mark.parametrize("strict_keys", [True, False])
@pytest.mark.parametrize(("before", "after"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_without_end_is_refused(before: bytes, after: bytes, *, strict_keys: bool) -> None:
    def nested(depth: int) -> bytes:
        middle = before * depth + b"1" + after * depth
        return b'{"kind":"tool_call","tool":"t","event_id":"e","session_id":"s","args":' + middle + b"}"

    assert isinstance(decode(nested(199), strict_keys=strict_keys), ToolCall)
    for depth in (201, 900, 100_000) if strict_keys else (100_000,):
        with pytest.raises(DecodeError, match="nested deeper than 200"):
            decode(nested(depth), strict_keys=strict_keys)


@pytest.mark.parametrize(
    "value",
    [
        b'{"kind":"turn","session_id":"a","session_id":"b"}',
        b'{"kind":"turn","session_id":"a","response":{"x":{"y":1,"y":1}}}',
        b'{"kind":"turn","session_id":"a","\\u0061":1,"a":2}',
    ],
)
def test_a_key_given_twice_is_refused_only_when_strict(value: bytes) -> None:
    with pytest.raises(DecodeError, match="duplicate key"):
        decode(value)
    assert isinstance(decode(value, strict_keys=False), Turn)


def test_a_record_over_the_limit_says_its_size_and_the_setting() -> None:
    with pytest.raises(DecodeError, match=r"52428800 bytes, more than decode\.max_record_bytes"):
        NativeDecoder().decode(Record(b'{"kind":"turn","session_id":"s"}', truncated=52_428_800))


def test_a_reason_shows_no_control_characters_of_the_producer() -> None:
    with pytest.raises(DecodeError) as refused:
        decode(b'{"\\u001b[31m":1,"\\u001b[31m":2}')
    assert str(refused.value).isprintable()


def test_an_event_without_an_id_gets_one_from_its_bytes() -> None:
    value = b'{"kind":"turn","session_id":"s"}'
    event_id = decode(value).event_id
    assert event_id == decode(value).event_id
    assert event_id == decode(value + b"\r\n").event_id
    assert event_id != decode(value.replace(b",", b", ")).event_id
    assert len(event_id) == 17
    assert event_id.startswith("~")


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2026-01-31T12:00:00Z", 1769860800.0),
        ("2026-01-31t14:00:00.25+02:00", 1769860800.25),
        ("2026-01-31 12:00:00.123456789z", 1769860800.123456),
    ],
)
def test_a_time_may_be_written_as_rfc_3339(written: str, seconds: float) -> None:
    assert decode(call(time=written)).time == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("time", [None, 0, 5, 0.5])
def test_a_time_may_be_any_number_from_zero_or_missing(time: float | None) -> None:
    assert decode(call(time=time)).time == time


@pytest.mark.parametrize(
    ("args", "read"),
    [
        ('{"amount": 3}', {"amount": 3}),
        (json.dumps(json.dumps({"amount": 3})), {"amount": 3}),
        ("[1]", [1]),
        ("null", None),
        ("", {}),
        (" \n", {}),
        ('{"amount": -Infinity}', {"amount": -float("inf")}),
        ('{"amount": 1e999}', {"amount": float("inf")}),
        ('{"amount": 3, "amount": 3}', {"amount": 3}),
        ('{"name": "a\\ud800b"}', {"name": "a\ufffdb"}),
    ],
)
def test_arguments_written_as_json_text_are_read(args: str, read: Any) -> None:
    event = decode(call(args=args))
    assert isinstance(event, ToolCall)
    assert (event.args, event.parse_error) == (read, False)


@pytest.mark.parametrize(
    "args",
    [
        "amount=3",
        '{"amount": 3',
        '"just words"',
        '{"amount": 1, "amount": 1000}',
        '{"amount": 1' + 20 * "0" + "}",
        '{"amount": 1, "\\uff41mount": 1000}',
        "[" * 300 + "]" * 300,
        json.dumps(json.dumps(json.dumps({"amount": 3}))),
    ],
)
def test_arguments_that_are_not_json_are_kept_as_they_are_and_flagged(args: str) -> None:
    event = decode(call(args=args))
    assert isinstance(event, ToolCall)
    assert (event.args, event.parse_error) == (args, True)


def test_arguments_flagged_by_the_producer_are_not_read_again() -> None:
    event = decode(call(args="5", parse_error=True))
    assert isinstance(event, ToolCall)
    assert (event.args, event.parse_error) == ("5", True)


def test_nonsense_in_stamped_fields_does_not_matter() -> None:
    plain = {"kind": "turn", "session_id": "s", "event_id": "e"}
    assert decode({**plain, "index": "x", "text": 5, "tools": {}}) == decode(plain)
    assert decode(call(attempt=[])) == decode(call())


def test_a_byte_order_mark_is_passed_over() -> None:
    assert decode(b'\xef\xbb\xbf{"kind":"turn","session_id":"s","event_id":"e"}') == decode(
        b'{"kind":"turn","session_id":"s","event_id":"e"}'
    )


def test_what_was_encoded_from_an_event_decodes_to_it() -> None:
    event = ToolCall(session_id="s", event_id="e", time=1.5, tool="t", args={"a": [1, None, "é"]}, run_id="r")
    assert decode(msgspec.json.encode(event)) == event
