"""What people are shown of an agent's text: readable, and as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stream_guard.cli.forms import print_table, undisguised


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


def printed(width: int, rows: list[list[str]], headings: Sequence[str] = ("id", "session id", "what")) -> str:
    written = StringIO()
    print_table(headings, rows, Console(file=written, width=width, force_terminal=True, no_color=True))
    return re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())


@given(
    st.sets(st.text("abcdef0123456789-", min_size=6, max_size=36), min_size=1, max_size=6),
    st.integers(min_value=20, max_value=100),
)
def test_every_id_in_a_table_stays_whole_and_everything_else_gives_way(ids: set[str], width: int) -> None:
    rows = [[name, name[::-1], "some words that may well be too long for the line"] for name in sorted(ids)]
    lines = printed(width, rows).splitlines()
    for name in (*ids, *(name[::-1] for name in ids)):
        assert any(name in line for line in lines)
    headings = len("session id: ")
    assert all(len(line) <= max(width, headings + max(map(len, ids)), len(f"what: {rows[0][2]}")) for line in lines)


def test_ids_stay_whole_where_there_is_room() -> None:
    assert "0123456789abcdef0123456789abcdef" in printed(100, [["0123456789abcdef0123456789abcdef", "s", "x"]])
