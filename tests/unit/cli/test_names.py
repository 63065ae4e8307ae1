"""Ids that are shortened on a terminal are found again by what is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.cli.names import LEAST, find_name, shorten
from stream_guard.errors import SettingsError


@given(st.sets(st.text("ab01", min_size=1, max_size=14), max_size=8))
def test_what_is_shown_of_an_id_finds_it_again(ids: set[str]) -> None:
    for name, shown in shorten(ids, least=LEAST).items():
        assert name.startswith(shown)
        if len(shown) >= LEAST:
            assert find_name(shown, ids, "things") == name


def test_a_beginning_of_several_is_refused_with_all_of_them() -> None:
    with pytest.raises(SettingsError, match="abcd begins 2 alerts: abcd1, abcd2; write more of it"):
        find_name("abcd", ["abcd1", "abcd2"], "alerts")


def test_an_id_that_begins_another_one_is_itself() -> None:
    assert find_name("abcd", ["abcd", "abcd2"], "alerts") == "abcd"


def test_too_short_a_beginning_is_nothing() -> None:
    assert find_name("abc", ["abcd"], "alerts") is None
    assert find_name("abcde", ["abcd"], "alerts") is None
