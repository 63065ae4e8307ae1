"""What it means for two JSON values to be equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stream_guard import Json, json_equal

DEPTH = 50_000


def nested(wrap: Callable[[Json], Json], core: Json, depth: int = DEPTH) -> Json:
    value = core
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.long
@pytest.mark.parametrize(
    "wrap",
    [lambda value: [value], lambda value: {"a": value}, lambda value: [{"a": value}]],
    ids=["lists", "objects", "both"],
)
def test_values_are_compared_however_deep_they_are(wrap: Callable[[Json], Json]) -> None:
    assert json_equal(nested(wrap, 1), nested(wrap, 1.0))
    assert not json_equal(nested(wrap, 1), nested(wrap, True))
    assert not json_equal(nested(wrap, 1), nested(wrap, 1, DEPTH + 1))


@pytest.mark.parametrize("depth", range(95, 106))
def test_a_missing_key_is_found_on_both_sides_of_where_recursion_ends(depth: int) -> None:
    def wrap(value: Json) -> Json:
        return {"a": value}

    assert not json_equal(nested(wrap, {"b": None}, depth), nested(wrap, {"c": None}, depth))
    assert json_equal(nested(wrap, {"b": None}, depth), nested(wrap, {"b": None}, depth))
