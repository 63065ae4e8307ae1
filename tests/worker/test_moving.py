"""States that move go to where their sessions' records will be, or nowhere."""

from __future__ import annotations

from math import gcd

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.errors import StoreError
from stream_guard.judge.forgotten import ForgottenSessions, sketch_number
from stream_guard.kafka.client import partition_of_key
from stream_guard.worker.rows import (
    KEY_STATES,
    VERSION,
    KnownTopic,
    PartitionStore,
    PolicyRow,
    ProgressRow,
    SessionRow,
    decode_policy,
    decode_progress,
    decode_session,
    encode_row,
    known_topics,
    owner_key,
    policy_key,
    progress_key,
    session_key,
    session_of,
    session_prefix,
    topic_tag,
    topics_key,
    waiting_key,
)
from stream_guard.worker.savepoint import FORMAT, SavedTopic, SavepointHeader, TargetTopic, move_states

EVENTS, TAG = "events", topic_tag("events")
Rows = dict[int, dict[bytes, bytes]]


def make_rows(names: list[str], partitions: int, *, next_offset: int = 10, bare: bool = False) -> Rows:
    """Sessions in their partitions, each read up to an offset."""
    rows: Rows = {}
    for number in range(partitions):
        progress = ProgressRow(VERSION, {TAG: next_offset - 1}, 100.0 + number, 1000.0)
        topics = {EVENTS: KnownTopic(b"\x01" * 16)}
        rows[number] = {
            owner_key(number): b"\x01",
            topics_key(number): encode_row(topics),
            progress_key(number): encode_row(progress),
        }
    for name in names:
        number = partition_of_key((name.partition("/")[2] if bare else name).encode(), partitions)
        row = SessionRow(VERSION, {TAG: next_offset - 1}, 7.5, name.encode())
        rows[number][session_key(number, name)] = encode_row(row)
    return rows


def make_header(partitions: int, *, unread: list[int] | None = None, topic_id: str = "01" * 16) -> SavepointHeader:
    """A savepoint of one topic that was read up to its end."""
    topic = SavedTopic(EVENTS, topic_id, [10] * partitions, [10] * partitions, unread or [])
    return SavepointHeader(FORMAT, VERSION, "old", partitions, [topic], [50] * partitions, 1e9)


def sessions(moved: Rows) -> dict[str, tuple[int, bytes]]:
    """Where each session is, and its state."""
    return {
        session_of(key): (number, decode_session(value).state)
        for number, rows in moved.items()
        for key, value in rows.items()
        if key.startswith(session_prefix(number))
    }


NAMES = st.lists(st.text("abcxyz/%ü0", min_size=1, max_size=6), unique=True, max_size=20)


@given(NAMES, st.integers(1, 6), st.integers(1, 13))
def test_every_session_is_in_the_partition_of_its_key_with_the_state_that_it_had(
    names: list[str], before: int, after: int
) -> None:
    targets = {"events-2": TargetTopic("02" * 16, [0] * after)}
    moved = move_states(make_header(before), make_rows(names, before), targets)
    assert sessions(moved) == {name: (partition_of_key(name.encode(), after), name.encode()) for name in names}
    for number, rows in moved.items():
        store = PartitionStore(number, rows)
        assert store.applied == {}, "the new topic is read from its first record"
        assert {deadline for _, deadline in store.deadlines()} <= {7.5}


@given(NAMES, st.integers(1, 6))
def test_a_topic_that_continues_is_read_on_where_the_group_stopped(names: list[str], partitions: int) -> None:
    header = make_header(partitions, unread=[0])
    rows = make_rows(names, partitions)
    moved = move_states(header, rows, {EVENTS: TargetTopic("01" * 16, [99] * partitions)})
    for number, held in moved.items():
        assert known_topics(held, number) == known_topics(rows[number], number)
        store = PartitionStore(number, held)
        assert store.applied == {TAG: 9}
        assert store.progress == decode_progress(rows[number][progress_key(number)])
    assert {name: place for name, (place, _) in sessions(moved).items()} == {
        name: partition_of_key(name.encode(), partitions) for name in names
    }


def test_the_same_topic_with_more_partitions_is_read_on_in_those_that_it_had() -> None:
    moved = move_states(
        make_header(2), make_rows(["a", "b", "c", "d"], 2), {EVENTS: TargetTopic("01" * 16, [10, 10, 3, 0])}
    )
    assert {number: PartitionStore(number, rows).applied for number, rows in moved.items()} == {
        0: {TAG: 9},
        1: {TAG: 9},
        2: {},
        3: {},
    }


def test_sessions_whose_keys_have_no_tenant_go_by_their_bare_ids() -> None:
    names = [f"tenant/session-{number}" for number in range(20)]
    moved = move_states(make_header(3), make_rows(names, 3, bare=True), {"events-2": TargetTopic("02" * 16, [0] * 7)})
    assert {name: place for name, (place, _) in sessions(moved).items()} == {
        name: partition_of_key(name.partition("/")[2].encode(), 7) for name in names
    }


def test_the_clock_of_sessions_that_come_together_is_the_slowest() -> None:
    moved = move_states(make_header(3), make_rows(["a"], 3), {"events-2": TargetTopic("02" * 16, [0, 0])})
    assert {decode_progress(rows[progress_key(number)]).watermark for number, rows in moved.items()} == {100.0}


def test_states_of_keys_go_to_the_partition_of_the_key() -> None:
    rows = make_rows([], 2)
    for name in ("k1", "k2", "k3"):
        number = partition_of_key(name.encode(), 2)
        rows[number][session_key(number, name, KEY_STATES)] = encode_row(SessionRow(VERSION, {}, None, b"state"))
        rows[number][progress_key(number, KEY_STATES)] = encode_row(ProgressRow(VERSION, {1: 5}, 50.0, 0.0))
    moved = move_states(make_header(2), rows, {"events-2": TargetTopic("02" * 16, [0] * 5)})
    for name in ("k1", "k2", "k3"):
        number = partition_of_key(name.encode(), 5)
        assert PartitionStore(number, moved[number], KEY_STATES).get(name) == b"state"


class MemoryStore(dict[str, bytes]):
    """A store of forgotten sessions."""

    def put(self, name: str, blob: bytes, _deadline: float | None) -> None:
        self[name] = blob

    def drop(self, name: str) -> None:
        self.pop(name, None)

    def deadlines(self) -> list[tuple[str, None]]:
        return [(name, None) for name in self]


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2), (3, 2)])
def test_what_was_forgotten_stays_forgotten(before: int, after: int) -> None:
    rows, names = make_rows([], before), [f"gone-{number}" for number in range(30)]
    for number in range(before):
        store = MemoryStore()
        forgotten = ForgottenSessions(store)  # type: ignore[arg-type]  # as much of a store as it needs
        for name in names:
            if partition_of_key(name.encode(), before) == number:
                forgotten.add("tenant", name, 5.0)
        forgotten.flush()
        for name, blob in store.items():
            rows[number][session_key(number, name)] = encode_row(SessionRow(VERSION, {}, None, blob))
    moved = move_states(make_header(before), rows, {"events-2": TargetTopic("02" * 16, [0] * after)})
    for name in names:
        number = partition_of_key(name.encode(), after)
        assert ForgottenSessions(PartitionStore(number, moved[number])).has("tenant", name, 6.0, 100.0)
    assert sketch_number(names[0])


@pytest.mark.parametrize(
    ("header", "targets", "said"),
    [
        (make_header(2, unread=[1]), {"events-2": TargetTopic("02" * 16, [0] * 4)}, "partitions 1 have records"),
        (make_header(2, unread=[1]), {EVENTS: TargetTopic("01" * 16, [10] * 4)}, "partitions 1 have records"),
        (make_header(2, unread=[0]), {EVENTS: TargetTopic("03" * 16, [10] * 2)}, "partitions 0 have records"),
        (make_header(2, unread=[0], topic_id=""), {EVENTS: TargetTopic("", [10] * 2)}, "partitions 0 have records"),
        (make_header(2), {EVENTS: TargetTopic("01" * 16, [10, 11, 0, 0])}, "records came into partitions 1 since"),
    ],
)
def test_records_that_nobody_would_read_are_refused(
    header: SavepointHeader, targets: dict[str, TargetTopic], said: str
) -> None:
    with pytest.raises(StoreError, match=said):
        move_states(header, make_rows(["a", "b"], 2), targets)


def test_sessions_under_other_keys_are_refused() -> None:
    rows = make_rows([], 2)
    for number in range(2):
        rows[number][session_key(number, "same")] = encode_row(SessionRow(VERSION, {}, None, b"state"))
    with pytest.raises(StoreError, match="not those of their ids"):
        move_states(make_header(2), rows, {"events-2": TargetTopic("02" * 16, [0] * 4)})


def test_events_and_spans_that_wait_are_refused() -> None:
    rows = make_rows([], 2)
    rows[1][waiting_key(1, 5)] = b"event"
    with pytest.raises(StoreError, match="1 events still wait"):
        move_states(make_header(2), rows, {"events-2": TargetTopic("02" * 16, [0] * 4)})
    rows = make_rows([], 2)
    rows[1][session_key(1, "\x00decoder\x00span")] = encode_row(SessionRow(VERSION, {}, None, b"span"))
    with pytest.raises(StoreError, match="wait for others of their session"):
        move_states(make_header(2), rows, {"events-2": TargetTopic("02" * 16, [0] * 4)})


def test_rows_of_another_version_are_not_guessed_at() -> None:
    rows = make_rows(["a"], 1)
    rows[0][session_key(0, "b")] = b"\x93\x01"
    with pytest.raises(msgspec.MsgspecError):
        move_states(make_header(1), rows, {"events-2": TargetTopic("02" * 16, [0] * 4)})


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 4), (4, 2), (2, 3), (3, 3)])
def test_each_partition_keeps_the_rollout_of_its_sessions(before: int, after: int) -> None:
    rows = make_rows(["a", "b", "c"], before)
    for number in range(1, before):
        rows[number][policy_key(number)] = encode_row(PolicyRow(1, number, {}, f"v{number}"))
    topic = TargetTopic("02" * 16, [0] * after)
    moved = move_states(make_header(before), rows, {"other": topic})
    sources = {
        number: [number] if before == after else range(number % gcd(before, after), before, gcd(before, after))
        for number in range(after)
    }
    found = {number: decode_policy(raw) for number, held in moved.items() if (raw := held.get(policy_key(number)))}
    wanted = {number: max(those) for number, those in sources.items() if max(those) > 0}
    assert {number: row.rollout for number, row in found.items()} == wanted
    assert {number: row.policy for number, row in found.items()} == {at: f"v{last}" for at, last in wanted.items()}
