"""An event id that comes again: the same event is dropped, another one is judged under an id of its own."""

from __future__ import annotations

from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.bound import key_text
from stream_guard.judge.counts import Counts
from stream_guard.judge.identity import canonical, content_digest, content_of
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, GateDecision, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

POLICY = load_policy(
    '{"rules": [{"id": "no", "kind": "no_call", "params": {"tool": "*"}}]}', build_registry(), file="p.json"
)


class Stream:
    """A table in which every attempt is a finding; a restart keeps what is stored."""

    def __init__(self, **limits: int) -> None:
        self.store, self.counts, self.limits = MemoryStore(), Counts(), SessionLimits(**limits)
        self.open()

    def open(self) -> None:
        self.table = Judge(POLICY, self.limits, mode="stream", store=self.store, counts=self.counts)

    def restart(self) -> None:
        self.table.commit()
        self.open()

    def call(self, event_id: str, tool: str, time: float = 0.0, amount: int = 0) -> list[str]:
        out: list[Finding] = []
        call = ToolCall(session_id="s", event_id=event_id, tool=tool, time=time, args={"amount": amount})
        out += self.table.feed(call).findings
        return [finding.event_id for finding in out]


calls = st.tuples(st.sampled_from("ab"), st.sampled_from(["pay", "look"]), st.integers(0, 1), st.integers(0, 1))


@given(st.lists(calls, max_size=25), st.sets(st.integers(0, 24)))
def test_each_content_of_an_id_is_judged_once(told: list[tuple[str, str, int, int]], restarts: set[int]) -> None:
    stream = Stream()
    judged: list[str] = []
    for number, (event_id, tool, time, amount) in enumerate(told):
        if number in restarts:
            stream.restart()
        judged += stream.call(event_id, tool, float(time), amount)
    assert len(judged) == len(set(judged)) == len(set(told))
    assert stream.counts.duplicate_events == len(told) - len(set(told))
    assert stream.counts.changed_events == len(set(told)) - len({event_id for event_id, *_ in told})


# The first bytes of the secret that xxh3 mixes in where nobody gives a seed: stripe n begins at byte 8 n of it.
PUBLISHED = bytes.fromhex("b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578")


def made_to_collide() -> tuple[ToolCall, ToolCall]:
    """Return two calls with one digest by xxh3 without a seed.

    A number that equals the secret in its lower half takes part in a sum only, and two of them may share that sum.
    """

    def call(blob: bytes) -> ToolCall:
        args: Any = {"blob": blob}
        return ToolCall(session_id="s", event_id="e", tool="pay", time=1.0, args=args)

    begin = content_of(call(b"#" * 600), timed=True).index(b"###")
    pad = -begin % 64
    stripe = (begin + pad) // 64

    def blob(first: int, second: int) -> bytes:
        parts = [
            PUBLISHED[8 * number : 8 * number + 4] + value.to_bytes(4, "little") + bytes(56)
            for number, value in ((stripe, first), (stripe + 1, second))
        ]
        return (bytes(pad) + b"".join(parts)).ljust(600, b"\0")

    return call(blob(5, 9)), call(blob(6, 8))


def test_a_call_that_was_made_to_collide_with_another_is_judged() -> None:
    first, second = made_to_collide()
    assert xxhash.xxh3_64_intdigest(content_of(first, timed=True)) == xxhash.xxh3_64_intdigest(
        content_of(second, timed=True)
    )
    for restart in (False, True):
        stream, found = Stream(), list[Finding]()
        found += stream.table.feed(first).findings
        if restart:
            stream.restart()
        found += stream.table.feed(second).findings
        assert len(found) == 2
        found += stream.table.feed(first).findings
        found += stream.table.feed(second).findings
        assert (len(found), stream.counts.duplicate_events) == (2, 2)


def test_the_id_of_its_own_is_the_same_in_a_replay() -> None:
    first, second = Stream(), Stream()
    for stream in (first, second):
        stream.call("e", "look")
    assert first.call("e", "pay") == second.call("e", "pay") != ["e"]


def test_a_batch_that_is_sent_again_is_dropped() -> None:
    stream = Stream()
    for _ in range(2):
        for number in range(500):
            stream.call(f"e{number}", "look", float(number))
    assert stream.counts.duplicate_events == 500


def test_early_and_late_events_of_a_long_session_are_told_from_others_of_their_id() -> None:
    stream = Stream()
    for number in range(400):
        stream.call(f"e{number}", "look", float(number))
    for number in (0, 399):
        assert stream.call(f"e{number}", "pay", float(number)) != [f"e{number}"]
    assert (stream.counts.changed_events, stream.counts.duplicate_events) == (2, 0)


@pytest.mark.parametrize("args", ['{"a": 1}', '"{\\"a\\": 1}"', "not JSON", '{"a": 1, "a": 2}', ""])
def test_arguments_that_are_read_from_text_make_no_other_event(args: str) -> None:
    stream = Stream()
    for _ in range(2):
        stream.table.feed(ToolCall(session_id="s", event_id="e", time=1.0, tool="pay", args=args))
    assert (stream.counts.changed_events, stream.counts.duplicate_events) == (0, 1)


def test_contested_text_is_not_what_one_reader_takes_from_it() -> None:
    stream = Stream()
    for args in ('{"a": 1, "a": 2}', {"a": 2}):
        stream.table.feed(ToolCall(session_id="s", event_id="e", time=1.0, tool="pay", args=args))
    assert (stream.counts.changed_events, stream.counts.duplicate_events) == (1, 0)


def test_what_is_stamped_on_an_event_is_no_content() -> None:
    told: list[Event] = [
        Turn(session_id="s", response={"content": [{"type": "text", "text": "hi"}]}),
        ToolCall(session_id="s", tool="pay", args={"a": 1}),
        ToolResult(session_id="s", output="done"),
        UserMessage(session_id="s", text="hello"),
    ]
    before = [content_digest(event) for event in told]
    stream, out = Stream(), list[Finding]()
    for event in told:
        out += stream.table.feed(event).findings
    assert [content_digest(event) for event in told] == before
    assert len(set(before)) == len(before)


def test_a_turn_that_is_sent_again_as_history_is_the_same_turn() -> None:
    said = [{"type": "text", "text": "hi"}]
    first = Turn(session_id="s", response={"content": said, "stop_reason": "stop", "usage": {"input_tokens": 5}})
    again = Turn(session_id="s", response={"content": said})
    other = Turn(session_id="s", response={"content": [{"type": "text", "text": "ho"}]})
    assert content_digest(first) == content_digest(again) != content_digest(other)


def test_an_agent_that_becomes_known_later_makes_no_other_event() -> None:
    known = [ToolCall(session_id="s", tool="pay", time=1.0, agent=agent) for agent in ("", "cashier")]
    assert len({content_digest(call) for call in known}) == 1
    without_a_clock = [ToolCall(session_id="s", tool="pay", agent=agent) for agent in ("a", "b")]
    assert len({content_digest(call) for call in without_a_clock}) == 2


@pytest.mark.parametrize("amount", [2**64, -(2**63) - 1, 10**40])
def test_an_event_with_a_number_of_any_size_is_judged_and_known_again(amount: int) -> None:
    stream = Stream()
    assert stream.call("a", "pay", amount=amount) == ["a"]
    assert stream.call("a", "pay", amount=amount) == []
    assert stream.call("a", "pay", amount=amount + 1) != []


@pytest.mark.parametrize("strange", [2**70, "\ud800", 1])
def test_what_stands_behind_much_else_is_content_too(strange: object) -> None:
    def call(command: str) -> ToolCall:
        args: Any = {"pad": [0] * 100_001, "n": strange, "z": command}
        return ToolCall(session_id="s", event_id="e", time=1.0, tool="sh", args=args)

    assert content_digest(call("ls")) != content_digest(call("rm -rf /"))
    assert content_digest(call("ls")) == content_digest(call("ls"))


def test_what_holds_itself_equals_nothing() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert canonical(loop) != canonical(loop)


class Nameless:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("strange", [Nameless(), {1: 2, "a": "x"}, {None: ["x"]}])
def test_whatever_a_process_passes_is_judged_and_its_texts_are_found(strange: object) -> None:
    rules = "rules: [{id: t, kind: forbidden_text, params: {text: x, where: tool_args}}]"
    judge = Judge(load_policy(rules, build_registry(), file="p.yaml"), mode="stream")
    args: Any = {"strange": strange, "said": "x"}
    assert len(judge.feed(ToolCall(session_id="s", event_id="e", time=1.0, tool="a", args=args)).findings) == 1
    assert judge.changes()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (10**22, 1e22),
        (2**70, float(2**70)),
        (["\ud800", 1], ["\ud800", 1.0]),
        (-0.0, 0),
        (float("nan"), -float("nan")),
    ],
)
def test_equal_numbers_have_the_same_bytes(left: Any, right: Any) -> None:
    assert canonical({"n": left}) == canonical({"n": right})
    assert canonical({"n": 1}) != canonical({"n": True})


@pytest.mark.parametrize("restart", [False, True])
def test_one_attempt_is_counted_once_whatever_is_stored_of_its_numbers(restart: bool) -> None:
    stream = Stream()
    block: Any = {"type": "tool_use", "id": "c", "name": "pay", "input": {"n": 2**70}}
    turn = Turn(session_id="s", event_id="t", time=1.0, response={"content": [block], "stop_reason": "tool_use"})
    call = ToolCall(session_id="s", event_id="e", time=1.0, tool="pay", call_id="c", args={"n": float(2**70)})
    found = [*stream.table.feed(turn).findings]
    if restart:
        stream.restart()
    found += stream.table.feed(call).findings
    assert len(found) == 1


@pytest.mark.parametrize("size", [4_000, 5_000])
def test_whole_numbers_of_any_length_are_judged(size: int) -> None:
    rule = "{id: k, kind: max_calls, params: {tool: pay, n: 1}, key: [session, args.n]}"
    policy = load_policy(f"rules: [{rule}]", build_registry(), file="p.yaml")
    judge = Judge(policy, mode="batch", store=MemoryStore())
    found: list[Finding] = []
    for number in range(3):
        args: Any = {"n": 10**size, "of": {10**size: 1}}
        time = 1e6 * number  # each waits for what shows that there was a pause
        found += judge.feed(ToolCall(session_id="s", event_id=f"{number}", time=time, tool="pay", args=args)).findings
        judge.commit()
        found += judge.feed(ToolCall(session_id="s", time=time, tool="pay", call_id="2", args=args)).findings
    assert len(found) == 3


def test_no_value_of_a_key_is_taken_for_another() -> None:
    long = "account-" + "9" * 80
    names = [
        long,
        key_text(long),
        f"#{xxhash.xxh3_128_hexdigest(long.encode())}",
        "bob\0acme",
        "bob",
        "#",
        "",
        long + "9",
    ]
    texts = [key_text(name) for name in names]
    assert len(set(texts)) == len(names)
    assert not any("\0" in text or len(text) > 64 for text in texts)


def test_digests_in_rows_of_an_earlier_version_are_those_of_this_one() -> None:
    # Another form would take each event that is delivered again after an upgrade for a new one, and judge it twice.
    told: list[tuple[Event, int]] = [
        (UserMessage(session_id="s", event_id="u", time=1.5e9, text="hi"), 15435040042087878821),
        (Turn(session_id="s", event_id="t", time=1.5e9, response={"content": "a"}), 18256705022816737313),
        (
            ToolCall(session_id="s", time=1.5e9, tool="pay", call_id="c1", args={"b": 1.0, "a": "x"}),
            11107266268684735488,
        ),
        (ToolCall(session_id="s", tool="pay", call_id="c1", args='{"a": 1}'), 11066160429201388204),
        (ToolCall(session_id="s", tool="pay", call_id="c1", args='{"a": 1, "a": 2}', agent="b"), 565838485434789686),
        (ToolResult(session_id="s", time=1.5e9, call_id="c1", output={"a": [1]}), 8732255097593474390),
        (GateDecision(session_id="s", time=1.5e9, call_id="c1", action="block"), 10671088735248472866),
        (SessionEnd(session_id="s", run_id="r1"), 15450540047842183739),
    ]
    assert [content_digest(event, True, 7) for event, _ in told] == [digest for _, digest in told]
