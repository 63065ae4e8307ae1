"""The pieces of texts that ``no_value_flow`` compares are all that a plain reading gives, whatever the text."""

from __future__ import annotations

from typing import Self
from zlib import crc32

import pytest
from stream_guard_rules.fingerprints import readings, squeezed, texts_in
from stream_guard_rules.flows import NoValueFlow, NoValueFlowParams, _cut

PROSE = "The parcel left our warehouse on Tuesday, reached the depot; 12 of 40 were damaged. " * 4


@pytest.mark.parametrize("length", [6, 7, 12, 13, 200])
@pytest.mark.parametrize("step", [1, 4, 8])
@pytest.mark.parametrize("size", [0, 5, 6, 11, 12, 13, 24, 25, 100, 300])
@pytest.mark.parametrize("end", ["", "€"])
def test_pieces_are_those_at_every_step(length: int, step: int, size: int, end: str) -> None:
    text = PROSE[:size] + end
    plainly = [text[start : start + length].encode() for start in range(0, len(text) - length + 1, step)]
    assert sorted(_cut(text, length, step)) == sorted(plainly)


@pytest.mark.parametrize("text", [PROSE, "a\x1cb\tc\x0bd", "A.b-C_d\x7f", "\x00x\x01", "“Ä” 20 €", "ﬁn\u00a0e"])
def test_a_squeezed_text_has_no_blanks_and_no_signs(text: str) -> None:
    plain, short = squeezed(text)
    assert plain == "".join(text.lower().split())
    assert not any(char.isascii() and not char.isalnum() and char > " " for char in short)
    assert squeezed(plain) == (plain, short)


def test_of_a_huge_result_no_more_is_worked_out_than_is_kept() -> None:
    rule = NoValueFlow(NoValueFlowParams.model_validate({"tool": "post"}))
    texts = [f"{crc32(b'%d' % number)} and more of text {number}" for number in range(2000)]
    assert rule._first_marks([*texts, *map(_Unread, range(10_000))]) == rule._first_marks(texts)


class _Unread(str):
    """A text that nobody may read any more."""

    __slots__ = ()

    def __new__(cls, number: int) -> Self:
        return super().__new__(cls, f"text {number} that comes too late")

    def __hash__(self) -> int:
        raise AssertionError("more was read than is kept")


def test_a_number_too_long_for_decimal_is_read_in_hexadecimal() -> None:
    assert list(texts_in([10**5000, -(10**5000), 12, 1.5, True])) == [f"{10**5000:x}", f"{-(10**5000):x}", "12", "1.5"]


def test_a_short_text_is_still_unquoted() -> None:
    assert readings("a%2Db") == ("a%2Db", "a-b")


def test_the_same_word_again_does_not_hide_what_is_encoded() -> None:
    assert "the code is 7" in readings("dGhlIGNvZGU= " * 40 + "dGhlIGNvZGUgaXMgNw==")
