"""Plain JSON: what the native module calls so is what its twin calls so, no reader refuses, and has each key once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jiter
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_guard.judge.json_values import check_json
from tests.bench.workload import event_lines
from tests.native import twins
from tests.native.building import open_native

Look = Callable[[bytes], bool]


@pytest.fixture(scope="module")
def is_plain(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """The native module and its twin, which must agree on every text that a test asks about."""
    native = open_native(tmp_path_factory.mktemp("native"))

    def look(text: bytes) -> bool:
        answer = native.is_plain_json(text)
        assert answer is twins.is_plain_json(text), text
        return bool(answer)

    return look


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), "a key is given twice"
    return found


def assert_nobody_refuses(text: bytes) -> None:
    """Three readers, each of its own making, take the text, and the last sees each key once."""
    jiter.from_json(text, catch_duplicate_keys=True, allow_inf_nan=False, cache_mode="keys")
    decoded = msgspec.json.decode(text)
    read = json.loads(text.decode("utf-8"), object_pairs_hook=once_each)
    assert read == decoded
    json.dumps(read, ensure_ascii=False).encode("utf-8")  # no half of a surrogate pair


SPACE = st.sampled_from([b"", b" ", b"\n", b"\t\r", b"\x0b", b"\xc2\xa0"])
RIGHT = [b"0", b"-0", b"1", b"-1", b"1.5", b"-1.5e3", b"1E+05", b"1e-7", b"1e99", b"123456789012345678"]
LARGE = [b"1e999", b"1234567890123456789012", b"1.0000000000000000000001"]
WRONG = [b"00", b"01", b"1.", b".5", b"1e", b"0x1", b"+1", b"-", b"NaN", b"Infinity", b"-Infinity", b"1_0"]
NUMBERS = st.sampled_from([*RIGHT, *LARGE, *WRONG])
WORDS = st.sampled_from([b"true", b"false", b"null", b"tr", b"nullx", b"True"])
PLAIN = [b"a", b"b", b"abcdefg", b" ", b"/", b"\x7f", "é".encode(), "日本".encode(), "🙂".encode()]
ESCAPED = [b"\\n", b"\\/", b"\\u0061", b"\\u00e9", b"\\ud83d\\ude00", b"\\uD83D\\uDE00"]
ODD = [b"\\ud83d", b"\\ude00", b"\\ud83d\\u0061", b"\\x", b"\\", b"\x00", b"\x1f", b"\n"]
NO_UTF_8 = [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
PIECES = st.sampled_from([*PLAIN, *ESCAPED, *ODD, *NO_UTF_8])
STRINGS = st.lists(PIECES, max_size=6).map(lambda pieces: b'"' + b"".join(pieces) + b'"')
KEYS = st.one_of(st.sampled_from([b'"a"', b'"b"', b'"ab"', b'""', b'"\\u0061"', '"é"'.encode(), b"a"]), STRINGS)


def spaced(parts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(SPACE, parts, SPACE).map(b"".join)


def nested(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    separators = st.sampled_from([b",", b",", b",", b",", b",,", b":", b""])
    pairs = st.tuples(spaced(KEYS), st.sampled_from([b":", b":", b":", b""]), inner).map(b"".join)

    def joined(items: st.SearchStrategy[bytes], brackets: list[tuple[bytes, bytes]]) -> st.SearchStrategy[bytes]:
        made = st.tuples(st.sampled_from(brackets), separators, st.lists(items, max_size=6))
        return made.map(lambda one: one[0][0] + one[1].join(one[2]) + one[0][1])

    return st.one_of(
        joined(pairs, [(b"{", b"}"), (b"{", b"}"), (b"{", b"]"), (b"{", b"")]),
        joined(inner, [(b"[", b"]"), (b"[", b"]"), (b"[", b"}"), (b"", b"]")]),
    )


TEXTS = st.recursive(spaced(st.one_of(NUMBERS, WORDS, STRINGS)), lambda inner: spaced(nested(inner)), max_leaves=12)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(text=TEXTS)
@example(text=b'{"a":1,"b":{"a":1,"a":2}}')
@example(text=b'[{"a":1},{"a":1}]')
@example(text=b'{"a":{"b":1},"a":2}')
@example(text=b'{"":1,"":2}')
def test_what_is_called_plain_nobody_refuses(text: bytes, is_plain: Look) -> None:
    if is_plain(text):
        assert_nobody_refuses(text)


RECORDS = event_lines(6)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(
    number=st.integers(0, len(RECORDS) - 1),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(list(b'"\\{}[]:,0aeu \x00\x80\xff'))), max_size=3
    ),
    tail=st.sampled_from([b"", b"\n", b" \r\n", b"}", b"\x00", b"{}"]),
)
def test_what_is_called_plain_of_a_damaged_record_nobody_refuses(
    number: int, edits: list[tuple[float, int, int]], tail: bytes, is_plain: Look
) -> None:
    text = bytearray(RECORDS[number])
    for place, size, byte in edits:
        at = int(place * len(text))
        text[at : at + size // 4] = bytes([byte]) * (size % 3)
    damaged = bytes(text) + tail
    if is_plain(damaged):
        assert_nobody_refuses(damaged)


@pytest.mark.parametrize("odd", [0x00, 0x1F, 0x20, 0x22, 0x5C, 0x7E, 0x7F, 0x80, 0xFF])
def test_an_odd_byte_in_a_string_is_seen_wherever_it_stands(odd: int, is_plain: Look) -> None:
    for place in range(40):
        string = b"a" * place + bytes([odd]) + b"a" * (39 - place)
        for text in (b'["%s"]' % string, b'{"%s":1}' % string):
            assert is_plain(text) == (odd in {0x20, 0x7E, 0x7F})


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"  "])
def test_the_records_that_are_measured_are_plain(end: bytes, is_plain: Look) -> None:
    assert [record for record in RECORDS if not is_plain(record + end)] == []


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b"[ ]",
        b'""',
        b"0",
        b"-0.5e-7",
        b"123456789012345678",
        b"[true,false,null]",
        b' { "a" : [ 1 , { "a" : 2 } , { "a" : 3 } ] , "b" : { } } ',
        '{"schlüssel": "日本 🙂", "schlüssel2": "é"}'.encode(),
        json.dumps({"text": '日本 🙂 "quoted" \\ / \n \x00'}).encode(),
        json.dumps({f"key {number}": number for number in range(40)}).encode(),
        b"[" * 64 + b"]" * 64,
    ],
)
def test_ordinary_texts_are_plain(text: bytes, is_plain: Look) -> None:
    assert is_plain(text)
    assert_nobody_refuses(text)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b" ", b"\xef\xbb\xbf{}", b"{}{}", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b"[1,]"),
        *(b'{"a":1,"a":1}', b'{"a":1,"\\u0061":1}', b'[[{"x":{"a":1,"b":2,"a":3}}]]', '{"é":1,"é":2}'.encode()),
        *(
            b"[NaN]",
            b"[1e999]",
            b"[01]",
            b"[1.]",
            b"[-]",
            b"tr",
            b"truex",
            b'"\\ud800"',
            b'"\\udc00"',
            b'"\xff"',
            b'"\x01"',
        ),
        *(b"[" * 201 + b"]" * 201, b'{"a":' * 201 + b"1" + b"}" * 201, b'"abc', b'"abc\\', b'"\\u00', b'"\\ud83d\\u'),
    ],
)
def test_nothing_else_is(text: bytes, is_plain: Look) -> None:
    assert not is_plain(text)


@pytest.mark.parametrize("keys", [49, 300, 5000])
def test_a_key_given_twice_in_a_large_object_is_left_to_the_parser(keys: int, is_plain: Look) -> None:
    text = b"{" + b",".join(b'"k%d":1' % (number % (keys - 1)) for number in range(keys)) + b"}"
    assert not is_plain(text)
    with pytest.raises(ValueError, match="duplicate key"):
        check_json(text)


@pytest.mark.parametrize("levels", [63, 64, 65])
@pytest.mark.parametrize("keys", [47, 48, 49])
def test_both_have_the_same_limits(levels: int, keys: int, is_plain: Look) -> None:
    inner = b"{%s}" % b",".join(b'"k%d":1' % number for number in range(keys))
    assert is_plain(b"[" * (levels - 1) + inner + b"]" * (levels - 1)) is (levels <= 64 and keys <= 48)


@pytest.mark.parametrize("last", [15, 16, 17])
def test_the_keys_around_one_place_are_limited_together(last: int, is_plain: Look) -> None:
    text = b"%s"
    for depth in range(6):
        others = b"".join(b'"k%d":1,' % number for number in range(last - 1 if depth == 5 else 47))
        text %= b"{" + others + b'"in":%s}'
    assert is_plain(text % b"0") is (5 * 48 + last <= 256)


def test_what_is_no_bytes_is_refused(is_plain: Look) -> None:
    with pytest.raises(TypeError):
        is_plain("{}")  # type: ignore[arg-type]
