"""A glance at native records never tells anything that decoding contradicts."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from stream_guard_formats.native.decoder import NativeDecoder, session_at_glance

from stream_guard import EVENT_KINDS, Record
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.reader import EventReader
from stream_guard.decoding.selection import EventSelection, Share
from stream_guard.judge.counts import Counts
from tests.bench.workload import event_lines

SHARES = tuple(Share(number, 3) for number in range(3))

KINDS = [f'"{kind}"'.encode() for kind in (*EVENT_KINDS, "nonsense", "turn_", "tur", "")]
IDS = [b'"a"', b'"b"', b'"c d~!"', b'""', b'"\\u0061"', b'"a\\"b"', b'"\xff"', '"ä"'.encode(), b'"\x00x"', b'"a', b"7"]
NAMES = [b"kind", b"session_id", b"sessionId", b"session", b"thread_id", b"conversation_id", b"tool", b"time", b""]
ODD_NAMES = [b"session\\u005fid", b"session_id\\u0000", b"session_i", b"session_idx", b"a\nb", b"\xfe", b"\x00"]
KEYS = st.sampled_from([b'"' + name + b'"' for name in (*NAMES, *ODD_NAMES)] + [b"session_id", b""])
SCALARS = [
    b"1.5",
    b"-1e+5",
    b"+e.-",
    b"true",
    b"false",
    b"null",
    b"nul",
    b"truex",
    b"NaN",
    b'"tool_call"',
    b'"x y"',
    b"'a'",
]
NESTED = [
    b"{}",
    b"[]",
    b'{"session_id": "b"}',
    b'["session_id", "b"]',
    b'"\\"session_id\\": \\"c\\""',
    b'{"a": {"thread_id":1}}',
]
VALUES = st.sampled_from([*SCALARS, *NESTED, *IDS])
SPACE = st.sampled_from([b"", b"", b"", b" ", b"\n", b"\t\r ", b"\x0b", b"\xc2\xa0"])
TEXT = st.binary(max_size=40) | st.sampled_from([b"x" * size + b'"session_id"' for size in range(40)])


@st.composite
def _field(draw: st.DrawFn, key: bytes | None = None, value: st.SearchStrategy[bytes] = VALUES) -> bytes:
    name = draw(KEYS) if key is None else key
    return b"".join((name, draw(SPACE), b":", draw(SPACE), draw(value), draw(SPACE)))


@st.composite
def _values(draw: st.DrawFn) -> bytes:
    """A record that mostly begins as a native one, with anything around its session."""
    fields = [draw(_field(b'"kind"', st.sampled_from(KINDS)))] if draw(st.integers(0, 9)) else []
    fields += draw(st.lists(_field(), max_size=3))
    fields.append(draw(_field(b'"session_id"', st.sampled_from(IDS))))
    fields += draw(st.lists(_field(), max_size=3))
    joint = draw(st.sampled_from((b",", b", ", b",\n", b",,")))
    whole = b"{" + draw(SPACE) + joint.join(fields) + b"}" + draw(st.sampled_from((b"", b"\n", b"}", b"[]")))
    mark = draw(st.sampled_from((b"", b"", b"", b"", b"\xef\xbb\xbf", b" ", b"[")))
    cut = draw(st.none() | st.integers(0, len(whole)))
    return mark + whole[:cut] + draw(st.just(b"") | TEXT)


@given(value=_values(), strict=st.booleans())
@example(b'{"kind": "turn", "session_id": "a"}' + b"x" * 5 + b'"session', True)
@example(b'{"kind": "turn", "session_id": "a", "args": {"n": "' + b"y" * 2_000_000 + b'"thread_id"', True)
@example(b'{"kind": "turn", "session_id": "' + b"a" * 100_000 + b'"}', True)
def test_all_that_decoding_gives_belongs_to_the_session_of_a_glance(value: bytes, strict: bool) -> None:
    decoder = NativeDecoder(strict_keys=strict)
    reader = EventReader(decoder, DeadLetters(None, Counts(), format_name="native"))
    record = Record(value, "file", 0, 1)
    session_id = decoder.session_at_glance(record)
    assert strict or session_id is None
    if session_id is not None:
        assert {event.session_id.encode() for event in reader.read(record)} <= {session_id}


def test_ordinary_events_are_known_at_a_glance() -> None:
    records = [Record(line + b"\n", "file") for line in event_lines(20)]
    sessions = [session_at_glance(record) for record in records]
    assert [NativeDecoder().decode(record)[0].session_id.encode() for record in records] == sessions
    selections = [EventSelection(NativeDecoder(), share) for share in SHARES]
    shares = [selection.own_at_glance(records, 0, len(records)) for selection in selections]
    assert [end for _, end in shares] == [len(records)] * len(SHARES)
    assert sorted(at for own, _ in shares for at in own) == list(range(len(records)))


def test_the_first_record_that_a_glance_does_not_tell_of_ends_it() -> None:
    records = [
        Record(value) for value in (b'{"kind":"turn","session_id":"a"}', b"{}", b'{"kind":"turn","session_id":"a"}')
    ]
    ends = [EventSelection(NativeDecoder(), share).own_at_glance(records, 0, 3)[1] for share in SHARES]
    assert ends == [1, 1, 1]


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_every_kind_is_known_at_a_glance(kind: str) -> None:
    record = Record(f'{{"kind":"{kind}","session_id":"a"}}'.encode())
    assert session_at_glance(record) == b"a"
    assert session_at_glance(replace(record, headers=(("ce_specversion", b"1.0"),))) is None
