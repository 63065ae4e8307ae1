"""Mutated records, a few for every run of the tests and a million for the slow one."""

from __future__ import annotations

import pytest

from tests.formats.fuzzing import MILLION, Crash, fuzz, names


@pytest.mark.parametrize("name", names())
def test_decoder_survives_mutated_records(name: str) -> None:
    crashes: list[Crash] = []
    seen = fuzz(name, 200, 1, crashes)
    assert crashes == []
    # Mutations that nothing survives, or that all do, would test nothing.
    assert seen["read"] > 10
    assert seen["refused"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_decoder_survives_its_share_of_a_million_mutated_records(name: str) -> None:
    crashes: list[Crash] = []
    fuzz(name, -(-MILLION // len(names())), 0, crashes)
    assert crashes == []
