"""The quick digest of the compiled build: the digest of the encoder's bytes, or none."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import msgspec
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from stream_guard.model import Event, GateDecision, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.sessions import contents, plain_content
from tests.bench.workload import event_lines
from tests.c_modules import open_c_module

Digest = Callable[[Event], int | None]


class Level(IntEnum):
    """A number of a type of its own, which the encoder may write in a way of its own."""

    HIGH = 3


class Word(str):
    """Text of a type of its own."""

    __slots__ = ()


class Stubborn:
    """A key that has the place of another in a dict, and cannot be compared with it."""

    def __hash__(self) -> int:
        return hash("content")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no")


OTHERS = [Level.HIGH, Word("w"), [Level.HIGH], {Word("w"): 1}]


@pytest.fixture(scope="module")
def digest_plain(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    """The quick digest, in C."""
    digest: Digest = open_c_module(plain_content, tmp_path_factory.mktemp("c")).digest_plain
    return digest


def slow_digest(event: Event) -> int:
    return xxhash.xxh3_64_intdigest(contents.content_of(event)) or 1


def telling(told: Any, time: float | None = 1.5) -> Turn:
    return Turn(session_id="s", time=time, response={"content": told})


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


@given(st.floats(allow_nan=False), JSON)
@example(0.0, [0] * 9_000)
@example(0.0, {str(number): number for number in range(300)})
@example(0.0, ["x" * 8_150, "y" * 20, "z" * 40])
@example(0.0, {"k" * 8_150: "y" * 30})
@example(0.0, nested(200))
def test_it_has_the_digest_of_what_the_encoder_writes_or_none(digest_plain: Digest, time: float, told: Any) -> None:
    call = ToolCall(session_id="s", time=time, tool="t", call_id="c", args=told)
    result = ToolResult(session_id="s", time=time, call_id="c", output=told)
    untimed = Turn(session_id="s", response={"content": told}, agent="a", run_id="r")
    for event in (telling(told, time), call, result, untimed):
        assert digest_plain(event) in (None, slow_digest(event))


@given(TEXTS, TEXTS, TEXTS)
@example("a" * 8_160, "", "t")
@example("a", "r" * 8_160, "t")
@example("a" * 4_090, "r" * 4_068, "")
def test_without_a_time_it_has_the_agent_and_the_run(digest_plain: Digest, agent: str, run_id: str, text: str) -> None:
    event = UserMessage(session_id="s", agent=agent, run_id=run_id, text=text)
    digest = digest_plain(event)
    assert digest in (None, slow_digest(event))
    assert digest is not None or len((agent + run_id + text).encode()) > 8_000


def test_it_leaves_an_agent_of_another_type_to_the_encoder(digest_plain: Digest) -> None:
    assert digest_plain(UserMessage(session_id="s", text="t", agent=Word("w"))) is None


def test_it_has_the_digest_at_every_length(digest_plain: Digest) -> None:
    """XXH3 takes other ways for other lengths; some two thousand are two of its blocks."""
    for size in [*range(2_100), *range(2_100, 8_100, 97)]:
        event = UserMessage(session_id="s", time=0.5 + size, text=f"{size}~" * (size // 5 + 1))
        assert digest_plain(event) == slow_digest(event)


@pytest.mark.parametrize(
    "told",
    [b"bytes", ("a", "tuple"), {1: "a number for a key"}, {"a set"}, 1j, "\ud800", {"\udfff": 1}, 2**64, *OTHERS],
    ids=repr,
)
def test_it_leaves_other_values_to_the_encoder(digest_plain: Digest, told: object) -> None:
    assert digest_plain(telling(told)) is None


@pytest.mark.parametrize(
    "event",
    [
        telling([], 3),
        ToolCall(session_id="s", time=1.5, tool="t", args="{}"),
        ToolCall(session_id="s", time=1.5, tool="t", args={}, contested="a key twice"),
        GateDecision(session_id="s", time=1.5, action="block"),
        SessionEnd(session_id="s", time=1.5),
    ],
    ids=repr,
)
def test_it_leaves_rare_events_to_the_encoder(digest_plain: Digest, event: Event) -> None:
    assert digest_plain(event) is None


def test_it_leaves_a_key_that_cannot_be_compared_to_the_encoder(digest_plain: Digest) -> None:
    response: dict[Any, Any] = {Stubborn(): 1}
    assert digest_plain(Turn(session_id="s", time=1.5, response=response)) is None


def test_it_knows_a_turn_without_content(digest_plain: Digest) -> None:
    event = Turn(session_id="s", time=1.5)
    assert digest_plain(event) == slow_digest(event)


def test_it_has_the_digests_of_events(digest_plain: Digest) -> None:
    decode = msgspec.json.Decoder(Event).decode
    events = [event for event in map(decode, event_lines(20)) if type(event) is not SessionEnd]
    assert len(events) > 250
    assert list(map(digest_plain, events)) == list(map(slow_digest, events))


def test_it_leaves_what_is_no_event(digest_plain: Digest) -> None:
    for other in (None, 1, "Turn", Turn):
        assert digest_plain(other) is None  # type: ignore[arg-type]
