"""The ids of a session's last events: known until their generation is forgotten, and stored as digests."""

from __future__ import annotations

import sys

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.identity import SeenIds

NAMES = st.one_of(
    st.integers(0, 60).map(lambda number: f"ev-{number}"),
    st.sampled_from(["", "\xe9", "\u65e5" * 9, "\ud800", "x" * 241, "y" * 5000]),
)


@given(st.lists(st.tuples(NAMES, st.integers(1, 2**64 - 1)), max_size=120), st.sampled_from([1, 2, 17, 500]))
def test_an_id_is_known_as_long_as_fewer_than_two_generations_came_after_it(
    added: list[tuple[str, int]], most: int
) -> None:
    seen, generations = SeenIds(), [dict[str, int]()]
    for event_id, content in added:
        known = generations[-1] | (generations[-2] if len(generations) > 1 else {})
        assert seen.content(event_id) == known.get(event_id)
        assert seen.add(event_id, content, most) is (event_id not in known)
        if event_id not in known:
            generations[-1][event_id] = content
            if len(generations[-1]) >= most:
                generations.append({})
        restored = SeenIds()
        restored.restore(*seen.stored())
        seen = restored


def test_earlier_versions_kept_no_seed_or_no_contents() -> None:
    key = xxhash.xxh3_64_intdigest(b"a").to_bytes(8, sys.byteorder)
    for contents, known in ((b"", 0), ((7).to_bytes(8, sys.byteorder), 7)):
        restored = SeenIds()
        restored.restore(key, b"", contents)
        assert restored.content("a") == known
        assert restored.content("b") is None
        again = SeenIds()
        again.restore(*restored.stored())
        assert again.content("a") == known


@pytest.mark.parametrize("name", ["", "a", "ev-1", "x" * 300])
def test_ids_are_digests_by_the_seed_of_their_session(name: str) -> None:
    seen, other = SeenIds(), SeenIds()
    for one in (seen, other):
        one.add(name, 5, 500)
    assert seen.stored()[0] == xxhash.xxh3_64_intdigest(name.encode(), seen.seed).to_bytes(8, sys.byteorder)
    assert seen.stored()[0] != other.stored()[0]
