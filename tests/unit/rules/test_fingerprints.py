"""Texts are decoded and lose their blanks alike, however they are written."""

from __future__ import annotations

import pytest
from stream_guard_rules.shared.fingerprints import decoded_forms, without_blanks

PROSE = "The parcel left our warehouse on Tuesday, reached the depot; 12 of 40 were damaged. " * 4


@pytest.mark.parametrize("text", [PROSE, "a\x1cb\tc\x0bd", "A.b-C_d\x7f", "\x00x\x01", "“Ä” 20 €", "ﬁn\u00a0e"])
def test_a_squeezed_text_has_no_blanks_and_no_signs(text: str) -> None:
    plain, short = without_blanks(text)
    assert plain == "".join(text.lower().split())
    assert not any(char.isascii() and not char.isalnum() and char > " " for char in short)
    assert without_blanks(plain) == (plain, short)


def test_a_short_text_is_still_unquoted() -> None:
    assert decoded_forms("a%2Db") == ("a%2Db", "a-b")


def test_the_same_word_again_does_not_hide_what_is_encoded() -> None:
    assert "the code is 7" in decoded_forms("dGhlIGNvZGU= " * 40 + "dGhlIGNvZGUgaXMgNw==")
