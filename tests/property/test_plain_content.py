"""The quick encoding of the compiled build: the encoder's bytes, or none."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_guard.model import Event
from stream_guard.sessions import contents, plain_content
from tests.bench.workload import event_lines
from tests.c_modules import open_c_module

Encode = Callable[..., bytes | None]


class Level(IntEnum):
    """A number of a type of its own, which the encoder may write in a way of its own."""

    HIGH = 3


class Word(str):
    """Text of a type of its own."""

    __slots__ = ()


OTHERS = [Level.HIGH, Word("w"), [Level.HIGH], {Word("w"): 1}]


@pytest.fixture(scope="module")
def encode_plain(tmp_path_factory: pytest.TempPathFactory) -> Encode:
    """The quick encoding, in C."""
    encode: Encode = open_c_module(plain_content, tmp_path_factory.mktemp("c")).encode_plain
    return encode


EDGES = [0, 127, 128, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1]
INTEGERS = st.one_of(st.integers(), st.sampled_from([*EDGES, *(-edge for edge in EDGES), -(2**63), 2**63, 2**64, -33]))
SIZES = st.sampled_from([0, 15, 16, 31, 32, 33, 255, 256, 257, 8_100, 8_192, 70_000])
TEXTS = st.one_of(st.text(), st.builds(lambda letter, size: letter * size, st.sampled_from("xé日🙂"), SIZES))
SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, st.floats(allow_nan=False), TEXTS)
JSON = st.recursive(
    SCALARS,
    lambda inside: st.one_of(st.lists(inside, max_size=20), st.dictionaries(st.text(max_size=40), inside, max_size=20)),
)


def nested(depth: int) -> Any:
    value: Any = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@given(st.sampled_from(["Turn", "ToolCall"]), st.floats(allow_nan=False), st.lists(JSON, max_size=3))
@example("Turn", 0.0, [[0] * 9_000])
@example("Turn", 0.0, [{str(number): number for number in range(300)}])
@example("Turn", 0.0, ["x" * 8_150, "y" * 20, "z" * 40])
@example("Turn", 0.0, [{"k" * 8_150: "y" * 30}])
@example("Turn", 0.0, [nested(200)])
def test_it_writes_what_the_encoder_writes_or_nothing(
    encode_plain: Encode, kind: str, time: float, told: list[Any]
) -> None:
    found = encode_plain(kind, time, *told)
    assert found is None or found == msgspec.msgpack.encode((kind, time, tuple(told)))


@pytest.mark.parametrize(
    "told",
    [b"bytes", ("a", "tuple"), {1: "a number for a key"}, {"a set"}, 1j, "\ud800", {"\udfff": 1}, 2**64, *OTHERS],
    ids=repr,
)
def test_it_leaves_other_values_to_the_encoder(encode_plain: Encode, told: object) -> None:
    assert encode_plain("ToolCall", 1.5, told) is None


def test_it_writes_what_events_tell(encode_plain: Encode, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes | None] = []

    def encode(*values: Any) -> bytes | None:
        written.append(encode_plain(*values))
        return written[-1]

    decode = msgspec.json.Decoder(Event).decode
    events = [decode(line) for line in event_lines(20)]
    slowly = list(map(contents.content_of, events))
    monkeypatch.setattr(contents, "encode_plain", encode)
    monkeypatch.setattr(contents, "_IS_QUICK", True)
    assert list(map(contents.content_of, events)) == slowly
    if written:  # the compiled build has the quick one, and may not see another
        assert len(written) > 250
        assert None not in written


def test_it_says_what_it_needs(encode_plain: Encode) -> None:
    with pytest.raises(TypeError, match="needs a kind and a time"):
        encode_plain("Turn")
