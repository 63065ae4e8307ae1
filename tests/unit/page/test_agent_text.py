"""Agent text on the page: it is text, all of it can be seen, and none of it is markup."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_guard.page.parts import session_path, shown, shown_json


@pytest.mark.parametrize(
    "sign",
    ["\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u00ad", "\U000e0041", "\x00", "\x1b", "\u2028", "\u3164"],
)
def test_a_sign_that_nobody_sees_is_shown_by_its_number(sign: str) -> None:
    found = str(shown(f"pay{sign}ment"))
    assert sign not in found
    assert f"U+{ord(sign):04X}" in found
    assert f"U+{ord(sign):04X}" in str(shown_json({"note": f"pay{sign}ment"})) or f"\\u{ord(sign):04x}" in str(
        shown_json({"note": f"pay{sign}ment"})
    )


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.text())
def test_whatever_an_agent_writes_is_only_text(text: str) -> None:
    found = str(shown(text))
    left = re.sub(r'<span class="hidden-sign" title="[^"<>]*">U\+[0-9A-F]{4,6}</span>', "", found)
    assert not set(left) & set("<>\"'")
    assert all(unicodedata.category(sign) not in ("Cf", "Cs") for sign in found)


def test_half_a_surrogate_pair_can_be_sent() -> None:
    assert str(shown("a\ud800b")).encode() == (
        b'a<span class="hidden-sign" title="a sign without a name">U+D800</span>b'
    )


@pytest.mark.parametrize(
    "name", ["..", ".", "a/../b", "//evil.example", "a?b#c", "a\\b", "\u202e", "\ud800", "", "x" * 999]
)
def test_an_id_that_reads_like_a_path_goes_by_its_key(name: str) -> None:
    assert re.fullmatch(r"/sessions/~[0-9a-f]{32}", session_path(name))


def test_a_plain_id_is_its_own_address() -> None:
    assert session_path("refund-00003") == "/sessions/refund-00003"
