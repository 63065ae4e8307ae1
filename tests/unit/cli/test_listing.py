"""What people are shown of an agent's text: readable, and as it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.cli.listing import undisguised


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Grüße an Jürgen", "Grüße an Jürgen"),
        ("東京の口座", "東京の口座"),
        ("Счёт Анны", "Счёт Анны"),
        ("p\u0430ypal", "p\\u0430ypal"),
        ("txt.\u202eexe", "txt.\\u202eexe"),
        ("a\u200bb", "a\\u200bb"),
        ("a\x1b[2Jb", "a\\u001b[2Jb"),
        ("a\x7f\x9bb\u2028", "a\\u007f\\u009bb\\u2028"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_letters_are_shown_and_disguises_are_not(text: str, shown: str) -> None:
    assert undisguised(json.dumps(text, ensure_ascii=False)) == f'"{shown}"'


@given(st.text(st.characters()))
def test_what_is_shown_is_the_same_json_and_can_be_printed(text: str) -> None:
    shown = undisguised(json.dumps(text, ensure_ascii=False))
    assert json.loads(shown) == text
    assert shown.isprintable()
