"""A glance at native records: in C and in Python it tells the same, and never anything that decoding contradicts."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stream_guard_formats import native_glance
from stream_guard_formats.native import NativeDecoder

from stream_guard import EVENT_KINDS, Record
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.reader import EventReader
from stream_guard.decoding.selection import Share
from stream_guard.observability.counts import Counts
from tests.bench.workload import event_lines
from tests.c_modules import open_c_module

Glance: TypeAlias = Callable[[list[Record], int, int, bytes], tuple[Sequence[int], int]]
SHARES = tuple(Share(number, 3) for number in range(3))
PLAIN = Path(__file__).parents[2] / "plugins" / "stream_guard_formats" / "native_glance.py"


@pytest.fixture(scope="module")
def c_module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_c_module(native_glance, tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def python_module() -> Any:
    """The plain build's, whichever build this is."""
    found = importlib.util.spec_from_file_location("plain_native_glance", PLAIN)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def in_c(c_module: Any) -> Glance:
    glance: Glance = c_module.glance
    return glance


@pytest.fixture(scope="module")
def in_python(python_module: Any) -> Glance:
    glance: Glance = python_module.glance
    return glance


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


_records = st.lists(
    st.builds(
        Record,
        _values(),
        st.sampled_from(("file", "file", "file", "other")),
        headers=st.sampled_from(((), (), (), (("ce_specversion", b"1.0"),))),
        truncated=st.sampled_from((0, 0, 0, 10**9)),
    ),
    min_size=1,
    max_size=8,
)


@given(records=_records, share=st.sampled_from((*SHARES, Share())))
def test_c_and_python_tell_the_same(in_c: Glance, in_python: Glance, records: list[Record], share: Share) -> None:
    for start in range(len(records)):
        for stop in (start + 1, len(records)):
            told = in_python(records, start, stop, share.buckets())
            assert in_c(records, start, stop, share.buckets()) == told


@given(head=_values(), tail=TEXT)
@example(b'{"kind": "turn", "session_id": "a"}' + b"x" * 5, b'"session')
@example(b'{"kind": "turn", "session_id": "a", "args": {"n": "' + b"y" * 2_000_000, b'"thread_id"')
@example(b'{"kind": "turn", "session_id": "' + b"a" * 100_000 + b'"', b"}")
def test_they_do_wherever_a_second_name_stands(in_c: Glance, in_python: Glance, head: bytes, tail: bytes) -> None:
    for value in (head, head + tail, head + tail + b'"', head + tail + b"}" * 17):
        record = Record(value, "file")
        assert in_c([record], 0, 1, SHARES[0].buckets()) == in_python([record], 0, 1, SHARES[0].buckets())


@given(values=st.lists(_values(), max_size=8), joint=st.sampled_from((b"\n", b"\n", b" \n", b"")), data=st.data())
@example([b'{"kind":', b'"turn", "session_id": "a"}', b""], b"\n", None)
@example([b'{"kind": "turn", "session_id":', b'"a"}', b""], b"\n", None)
@example([b'{"kind":"turn","session_id":"a"}'] * 9 + [b""], b"\n", None)
def test_lines_tell_what_their_records_tell(
    c_module: Any, python_module: Any, values: list[bytes], joint: bytes, data: st.DataObject | None
) -> None:
    """A line ends where it ends, whatever the next one begins with."""
    chunk = joint.join(values)
    start = data.draw(st.integers(0, len(chunk))) if data is not None else 0
    records = [Record(line + b"\n", "file") for line in chunk[start:].split(b"\n")[:-1]]
    for share in SHARES:
        ours = share.buckets()
        own, end = c_module.glance(records, 0, len(records), ours) if records else ([], 0)
        told = bytes(at in own for at in range(end))
        assert c_module.glance_lines(chunk, start, ours) == python_module.glance_lines(chunk, start, ours) == told


@pytest.mark.parametrize(("chunk", "start", "ours"), [(b"", -1, b"1"), (b"ab", 3, b"1"), (b"ab", 0, b"")])
def test_a_glance_at_lines_says_what_it_needs(c_module: Any, chunk: bytes, start: int, ours: bytes) -> None:
    with pytest.raises(ValueError, match="needs a place in the chunk and one bucket"):
        c_module.glance_lines(chunk, start, ours)


@given(value=_values(), strict=st.booleans())
def test_what_is_certain_belongs_to_one_share_and_so_does_all_that_decoding_gives(value: bytes, strict: bool) -> None:
    decoder = NativeDecoder(strict_keys=strict)
    reader = EventReader(decoder, DeadLetters(None, Counts(), format_name="native"))
    record = Record(value, "file", 0, 1)
    told = [decoder.glance([record], 0, 1, share.buckets()) for share in SHARES]
    owners = [share for share, (own, _) in zip(SHARES, told, strict=True) if own]
    assert len({end for _, end in told}) == 1  # certain for all, or for none
    assert len(owners) == told[0][1]
    assert strict or not owners
    for event in reader.read(record):
        assert all(share.holds(event.session_id) for share in owners)


def test_ordinary_events_are_certain(in_c: Glance, in_python: Glance) -> None:
    records = [Record(line + b"\n", "file") for line in event_lines(20)]
    shares = [in_c(records, 0, len(records), share.buckets()) for share in SHARES]
    assert [end for _, end in shares] == [len(records)] * len(SHARES)
    assert sorted(at for own, _ in shares for at in own) == list(range(len(records)))
    assert shares == [in_python(records, 0, len(records), share.buckets()) for share in SHARES]


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_every_kind_is_known_at_a_glance(in_c: Glance, in_python: Glance, kind: str) -> None:
    record = Record(f'{{"kind":"{kind}","session_id":"a"}}'.encode())
    for glance in (in_c, in_python):
        assert glance([record], 0, 1, Share().buckets()) == ([0], 1)


def test_what_is_no_list_of_records_is_refused_and_not_read(in_c: Glance) -> None:
    record = Record(b'{"kind":"turn","session_id":"a"}')
    for start, stop, ours in ((0, 2, b"\1"), (-1, 1, b"\1"), (1, 1, b"\1"), (0, 1, b"")):
        with pytest.raises(ValueError, match="at least one"):
            in_c([record], start, stop, ours)
    with pytest.raises(TypeError):
        in_c((record,), 0, 1, b"\1")  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        in_c([b"no record"], 0, 1, b"\1")  # type: ignore[list-item]
