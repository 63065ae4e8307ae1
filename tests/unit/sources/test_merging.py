"""Merged records come by time, keep their partition's order, and wait for who has more to come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream_guard.ports import Record
from stream_guard.sources.kafka import MAX_WAITING, MAX_WAITING_BYTES, RecordMerger


def record(origin: str, position: int, time: float | None = None, size: int = 1) -> Record:
    return Record(b"x" * size, origin, position, time=time)


def test_the_earlier_comes_first_and_equals_go_by_origin() -> None:
    merger = RecordMerger()
    merger.add("b", [record("b", 0, 1.0), record("b", 1, 3.0)])
    merger.add("a", [record("a", 0, 2.0), record("a", 1, 3.0)])
    assert [(one.origin, one.position) for one in merger.take(set())] == [("b", 0), ("a", 0), ("a", 1), ("b", 1)]


def test_nothing_is_given_while_an_awaited_origin_has_nothing() -> None:
    merger = RecordMerger()
    merger.add("a", [record("a", 0, 1.0)])
    assert list(merger.take({"a", "b"})) == []
    merger.add("b", [record("b", 0, 0.5)])
    assert [one.origin for one in merger.take({"a", "b"})] == ["b"], "more of b may be earlier than a"
    assert [one.origin for one in merger.take({"a"})] == ["a"]


def test_what_waits_is_measured_in_records_and_in_bytes() -> None:
    merger = RecordMerger()
    merger.add("a", [record("a", 0, size=MAX_WAITING_BYTES // 2)])
    merger.add("b", [record("b", number) for number in range(MAX_WAITING)])
    assert merger.fill_of("a") == 0.5
    assert merger.fill_of("b") == 1.0
    assert merger.fill_of("c") == 0.0
    list(merger.take(set()))
    assert merger.fill_of("a") == merger.fill_of("b") == 0.0


times = st.one_of(st.none(), st.floats(0, 10))


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(times, max_size=12), min_size=1),
    st.lists(st.integers(1, 4), min_size=1, max_size=20),
)
def test_the_order_does_not_depend_on_how_it_was_fetched(
    partitions: dict[str, list[float | None]], steps: list[int]
) -> None:
    whole = {
        origin: [record(origin, position, time) for position, time in enumerate(listed)]
        for origin, listed in partitions.items()
    }
    at_once = RecordMerger()
    for origin, records in whole.items():
        at_once.add(origin, records)
    wanted = list(at_once.take(set()))

    merger, given_out, turn = RecordMerger(), dict.fromkeys(whole, 0), 0
    found: list[Record] = []
    while any(given_out[origin] < len(whole[origin]) for origin in whole):
        origin = sorted(whole)[turn % len(whole)]
        step = steps[turn % len(steps)]
        merger.add(origin, whole[origin][given_out[origin] : given_out[origin] + step])
        given_out[origin] += step
        turn += 1
        found += merger.take({name for name in whole if given_out[name] < len(whole[name])})
    found += merger.take(set())
    assert found == wanted
    for origin, records in whole.items():
        assert [one for one in found if one.origin == origin] == records
