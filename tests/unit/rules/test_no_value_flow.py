"""The pieces of texts that ``no_value_flow`` compares are all that a plain reading gives, whatever the text."""

from __future__ import annotations

from typing import Self
from zlib import crc32

import pytest
from stream_guard_rules.no_value_flow import NoValueFlow, NoValueFlowParams, _cut

PROSE = "The parcel left our warehouse on Tuesday, reached the depot; 12 of 40 were damaged. " * 4


@pytest.mark.parametrize("length", [6, 7, 12, 13, 200])
@pytest.mark.parametrize("step", [1, 4, 8])
@pytest.mark.parametrize("size", [0, 5, 6, 11, 12, 13, 24, 25, 100, 300])
@pytest.mark.parametrize("end", ["", "€"])
def test_pieces_are_those_at_every_step(length: int, step: int, size: int, end: str) -> None:
    text = PROSE[:size] + end
    plainly = [text[start : start + length].encode() for start in range(0, len(text) - length + 1, step)]
    assert sorted(_cut(text, length, step)) == sorted(plainly)


def test_of_a_huge_result_no_more_is_worked_out_than_is_kept() -> None:
    rule = NoValueFlow(NoValueFlowParams.model_validate({"tool": "post"}))
    texts = [f"{crc32(b'%d' % number)} and more of text {number}" for number in range(16_000)]
    assert rule._fingerprints([*texts, *map(_Unread, range(10_000))]) == rule._fingerprints(texts)


class _Unread(str):
    """A text that nobody may read any more."""

    __slots__ = ()

    def __new__(cls, number: int) -> Self:
        return super().__new__(cls, f"text {number} that comes too late")

    def __hash__(self) -> int:
        raise AssertionError("more was read than is kept")
