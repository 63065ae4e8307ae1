"""Partitions stay where they are, and go to where their states are."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stream_guard.worker.kafka.sharing import MemberShare, MemberState, place

NAMES = ["a", "b", "c", "d", "e"]


def owned(shares: dict[str, MemberShare]) -> dict[str, set[int]]:
    """Who judges what."""
    return {name: share.owned for name, share in shares.items()}


def keeper(*numbers: int, ready: tuple[int, ...] | None = (), light: tuple[int, ...] = ()) -> MemberState:
    """A worker that had partitions with their states, and copies of others."""
    return MemberState(
        frozenset(numbers), None if ready is None else frozenset({*numbers, *ready}), light=frozenset(light)
    )


def test_the_partitions_of_a_worker_that_died_go_to_the_copies() -> None:
    members = {"a": keeper(0, 1, ready=(4,)), "b": keeper(2, 3, ready=(5,))}
    assert owned(place(members, range(6), 1)) == {"a": {0, 1, 4}, "b": {2, 3, 5}}


def test_a_copy_goes_before_an_even_share_until_the_others_have_one() -> None:
    members = {"a": keeper(0, 1, ready=(2, 3)), "b": keeper()}
    shares = place(members, range(4), 1)
    assert owned(shares) == {"a": {0, 1, 2, 3}, "b": set()}
    assert shares["b"].warming == {0, 1}
    assert shares["b"].warming <= shares["b"].copies
    warm = {"a": keeper(0, 1, 2, 3), "b": keeper(ready=(0, 1, 2, 3))}
    assert owned(place(warm, range(4), 1)) == {"a": {2, 3}, "b": {0, 1}}


def test_partitions_with_few_states_move_at_once() -> None:
    members = {"a": keeper(0, 1, 2, 3, light=(0, 1, 2, 3)), "b": keeper()}
    assert owned(place(members, range(4), 1)) == {"a": {2, 3}, "b": {0, 1}}


def test_a_worker_that_was_started_again_without_its_states_does_not_keep_what_another_has() -> None:
    again = MemberState(owned=frozenset({0, 1}), ready=frozenset())
    shares = place({"a": again, "b": keeper(2, 3, ready=(0, 1))}, range(4), 1)
    assert owned(shares) == {"a": set(), "b": {0, 1, 2, 3}}
    assert len(shares["a"].warming) == 2


def test_without_any_states_all_is_shared_out_at_once() -> None:
    fresh = MemberState(ready=frozenset())
    assert Counter(map(len, owned(place({"a": fresh, "b": fresh, "c": fresh}, range(7), 1)).values())) == {2: 2, 3: 1}


def test_a_worker_of_an_earlier_version_gets_its_share_and_no_copies() -> None:
    shares = place({"new": keeper(0, 1, 2, 3), "old": MemberState()}, range(4), 1)
    assert {name: len(numbers) for name, numbers in owned(shares).items()} == {"new": 2, "old": 2}
    assert not shares["old"].copies
    assert shares["new"].copies == shares["old"].owned


def test_the_copies_of_one_workers_partitions_are_with_all_others() -> None:
    shares = place({"a": keeper(0, 1, 2, 3), "b": keeper(4, 5, 6, 7), "c": keeper(8, 9, 10, 11)}, range(12), 1)
    assert {name: len(share.copies & {0, 1, 2, 3}) for name, share in shares.items()} == {"a": 0, "b": 2, "c": 2}


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, MemberState], int, int]:
    """Workers of both versions, of which some have states, some claim what they lost, and two may claim the same."""
    partitions, copies = draw(st.integers(1, 12)), draw(st.integers(0, 3))
    some = st.frozensets(st.integers(0, partitions - 1))
    members = draw(
        st.dictionaries(st.sampled_from(NAMES), st.builds(MemberState, some, st.none() | some, light=some), min_size=1)
    )
    return members, partitions, copies


@given(groups())
def test_each_partition_has_one_owner_and_its_copies_are_elsewhere(
    given: tuple[dict[str, MemberState], int, int],
) -> None:
    members, partitions, copies = given
    shares = place(members, range(partitions), copies)
    counted = Counter(number for share in shares.values() for number in share.owned)
    assert counted == dict.fromkeys(range(partitions), 1)
    able = [name for name, member in members.items() if member.ready is not None]
    for name, share in shares.items():
        assert not share.owned & share.copies
        assert share.warming <= share.copies
        for number in share.owned:
            holders = [other for other in shares if number in shares[other].copies]
            assert len(holders) >= min(copies, len(set(able) - {name}))
            assert set(holders) <= set(able)


@given(groups())
def test_what_is_shared_out_stays_when_it_is_shared_out_again(given: tuple[dict[str, MemberState], int, int]) -> None:
    members, partitions, copies = given
    shares = place(members, range(partitions), copies)
    before = shares
    for _ in range(2):  # once more for the partitions that waited for their copies
        settled = {
            name: MemberState(
                frozenset(share.owned),
                None if members[name].ready is None else frozenset(share.owned | share.copies),
            )
            for name, share in shares.items()
        }
        before, shares = shares, place(settled, range(partitions), copies)
    assert owned(shares) == owned(before)
    sizes = [len(numbers) for numbers in owned(shares).values()]
    assert max(sizes) - min(sizes) <= 1


@given(groups(), st.sampled_from(NAMES))
def test_no_more_move_than_an_even_share_needs(given: tuple[dict[str, MemberState], int, int], gone: str) -> None:
    members, partitions, copies = given
    everything = frozenset(range(partitions))
    even = place({name: MemberState(ready=everything) for name in members}, everything, copies)
    left = {name: MemberState(frozenset(share.owned), everything) for name, share in even.items() if name != gone}
    for state in ([left] if left else []) + [left | {"joined": MemberState(ready=everything)}]:
        shares = place(state, everything, copies)
        least = sum(max(0, len(one.owned) - len(shares[name].owned)) for name, one in state.items())
        moved = sum(len(one.owned - shares[name].owned) for name, one in state.items())
        assert moved == least
