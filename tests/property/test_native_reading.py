"""The quick reading of native records in the compiled build: the parser's event, or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stream_guard_formats import native_reading
from stream_guard_formats.native import NativeDecoder

from stream_guard import DecodeError, Event, Record
from stream_guard.model import EVENT_KINDS
from tests.bench.workload import event_lines
from tests.c_modules import open_c_module

ReadEvents = Callable[[list[Record]], list[Event | None]]


@pytest.fixture(scope="module")
def read_events(tmp_path_factory: pytest.TempPathFactory) -> ReadEvents:
    """The quick reading, in C."""
    read: ReadEvents = open_c_module(native_reading, tmp_path_factory.mktemp("c")).read_events
    return read


@pytest.fixture(scope="module")
def parser() -> NativeDecoder:
    """The decoder without it."""
    decoder = NativeDecoder()
    decoder._reads = False
    return decoder


def hold_against(read_events: ReadEvents, parser: NativeDecoder, value: bytes) -> Event | None:
    """Return what is read quickly, which must be what the parser makes of the record, type by type."""
    record = Record(value)
    (quick,) = read_events([record])
    if quick is not None:
        try:
            events = parser.decode(record)
        except DecodeError as error:
            raise AssertionError(f"the parser refuses it: {error}") from None
        assert repr(events) == repr([quick])
        assert [type(event) for event in events] == [type(quick)]
    return quick


LINES = event_lines(3)
TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(["", "x" * 33, "é" * 20, "🙂", '"\\/\b\f\n\r\t', "\0", "~1"]))
NUMBERS = st.one_of(
    st.integers(-(10**19), 10**19),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, 1e22, 1e-22, 2**53 + 1, 1767600000.1234567, 253402300799.5, 253402300800.0, 0.1]),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inside: st.one_of(st.lists(inside, max_size=4), st.dictionaries(TEXTS, inside, max_size=7)),
    max_leaves=12,
)
USAGE = st.dictionaries(
    st.sampled_from(["input_tokens", "output_tokens", "cost_usd", "thinking_tokens", "prompt_tokens"]),
    st.one_of(st.integers(-2, 10**18), st.floats(-1, 9), st.booleans(), st.none()),
    max_size=4,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "session_id": TEXTS,
    "event_id": TEXTS,
    "time": st.one_of(NUMBERS, st.none(), st.just("2026-01-31T12:00:00Z"), st.booleans()),
    "agent_path": st.one_of(st.lists(TEXTS, max_size=3), st.just([1])),
    "labels": st.one_of(st.dictionaries(TEXTS, TEXTS, max_size=3), st.just({"a": 1})),
    "captured": st.one_of(st.booleans(), st.just(1)),
    "index": st.integers(),
    "attempt": st.integers(),
    "request": st.one_of(st.none(), st.dictionaries(TEXTS, JSON, max_size=3), JSON),
    "response": st.one_of(
        st.builds(lambda inside, usage: {**inside, "usage": usage}, st.dictionaries(TEXTS, JSON, max_size=3), USAGE),
        JSON,
    ),
    "text": TEXTS,
    "tool": st.one_of(TEXTS, st.none()),
    "call_id": TEXTS,
    "args": JSON,
    "parse_error": st.booleans(),
    "contested": TEXTS,
    "action": st.sampled_from(["allow", "block", "other"]),
    "rule_ids": st.lists(TEXTS, max_size=2),
    "status": st.sampled_from(["ok", "error", "blocked", "OK"]),
    "output": JSON,
    "latency_ms": st.one_of(NUMBERS, st.none()),
    "reason": st.sampled_from(["closed", "idle", "none"]),
    "unknown": JSON,
}


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """An event of any kind, with any fields in any order; mostly those that it must have."""
    must = {"session_id": "s", "event_id": "e", "tool": "t", "action": "allow", "time": 5}
    given_fields = draw(st.fixed_dictionaries({}, optional=FIELDS))
    event = {"kind": draw(st.sampled_from([*EVENT_KINDS, "turns"])), **(must if draw(st.booleans()) else {})}
    fields = draw(st.permutations(list((event | given_fields).items())))
    if draw(st.booleans()):
        fields.sort(key=lambda field: field[0] != "kind")
    text = json.dumps(
        dict(fields), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])), allow_nan=False
    )
    return text.encode("utf-8", "surrogatepass") + draw(st.sampled_from([b"", b"\n", b" \r\n", b" x"]))


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """An event of the benchmark with some bytes changed, cut or given twice."""
    value = draw(st.sampled_from(LINES))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(value)))
        stop = min(len(value), start + draw(st.integers(0, 12)))
        put = draw(
            st.sampled_from([b"", b'"', b"\\", b"\\u00e9", b"\\ud83d", b"{", b"}", b"[", b"]", b",", b":", b"0"])
        )
        more = draw(st.sampled_from([b"", b"-1e5", b"\xc3\xa9", b"\xff", b"\0", b' "kind":"turn",', value[start:stop]]))
        value = value[:start] + put + more + value[stop:]
    return value


@given(value=records())
@example(value=b'{"kind":"turn","session_id":"s","event_id":"e","kind":"turn"}')
@example(
    value=b'{"session_id":"s","x":{"kind":"turn"},"event_id":"e","kind":"user_message","text":"\\u00e9\\ud83d\\ude42"}'
)
@example(value=b'{"kind":"tool_result","session_id":"s","event_id":"e","output":' + b"[" * 70 + b"]" * 70 + b"}")
@example(
    value=b'{"kind":"tool_result","session_id":"s","event_id":"e","output":[-0,0.1e5,1E-9,-0.0,12345678901234567.5]}'
)
@example(value=b'{"kind":"turn","session_id":"\\u0000s","event_id":"e"}')
def test_what_is_read_quickly_is_what_the_parser_reads(
    read_events: ReadEvents, parser: NativeDecoder, value: bytes
) -> None:
    hold_against(read_events, parser, value)


@given(value=spoilt())
def test_of_a_spoilt_record_too(read_events: ReadEvents, parser: NativeDecoder, value: bytes) -> None:
    hold_against(read_events, parser, value)


@pytest.mark.parametrize("order", ["as it is", "sorted", "reversed"])
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_plain_records_are_read_quickly(
    read_events: ReadEvents, parser: NativeDecoder, order: str, ensure_ascii: bool
) -> None:
    for line in LINES:
        event = json.loads(line) | {"agent": "zwölf 🙂\n"}
        if order != "as it is":
            event = dict(sorted(event.items(), reverse=order == "reversed"))
        value = json.dumps(event, ensure_ascii=ensure_ascii).encode()
        assert hold_against(read_events, parser, value) is not None


def test_records_that_it_may_not_read_are_left_alone(read_events: ReadEvents) -> None:
    line = LINES[0]
    assert read_events([Record(line), Record(line[:-1]), Record(line, truncated=5), Record(b"")])[1:] == [None] * 3
    assert read_events([]) == []
    with pytest.raises(TypeError):
        read_events((Record(line),))  # type: ignore[arg-type]


def test_strings_that_are_kept_do_not_mix(read_events: ReadEvents, parser: NativeDecoder) -> None:
    # Many short strings share the places where they are kept.
    for number in range(5_000):
        texts = [
            f"{number:x}"[:16],
            f"tool_{number}_{number * 7919 % 1000}",
            "x" * (number % 40),
            f"{number}".rjust(20, "a"),
        ]
        event = {
            "kind": "tool_call",
            "session_id": texts[1],
            "event_id": texts[0] or "e",
            "tool": texts[2],
            "args": texts,
        }
        assert hold_against(read_events, parser, json.dumps(event).encode()) is not None


def test_every_field_of_every_event_is_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Where the model has a field that the C does not name, it would leave all records to the parser.
    assert open_c_module(native_reading, tmp_path_factory.mktemp("c")).READS


@given(origins=st.lists(st.sampled_from(("a", "b")), min_size=1, max_size=8), broken=st.integers(0, 9))
def test_with_an_origin_it_stops_where_another_or_a_stranger_begins(
    read_events: Any, origins: list[str], broken: int
) -> None:
    line = event_lines(1)[0]
    # Equal texts, not the same object: records of two runs may name one file.
    records = [Record(b"{" if at == broken else line, bytes(name, "ascii").decode()) for at, name in enumerate(origins)]
    whole, run = read_events(records), read_events(records, "a")
    assert [event is None for event in whole] == [at == broken for at in range(len(records))]
    stop = next((at for at, name in enumerate(origins) if name != "a" or at == broken), len(records))
    assert run == whole[:stop] + [None] * (len(records) - stop)


@pytest.mark.parametrize("values", [(), ("text",), ([], "a", "b")], ids=repr)
def test_it_says_what_it_needs(read_events: Any, values: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="a list of records"):
        read_events(*values)
