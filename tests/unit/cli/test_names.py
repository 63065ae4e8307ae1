"""An id is found by a beginning that no other one has."""

from __future__ import annotations

import pytest

from stream_guard.cli.forms import find_name
from stream_guard.errors import SettingsError


def test_a_beginning_of_several_is_refused_with_all_of_them() -> None:
    with pytest.raises(SettingsError, match="abcd begins 2 alerts: abcd1, abcd2; write more of it"):
        find_name("abcd", ["abcd1", "abcd2"], "alerts")


def test_an_id_that_begins_another_one_is_itself() -> None:
    assert find_name("abcd", ["abcd", "abcd2"], "alerts") == "abcd"


def test_too_short_a_beginning_is_nothing() -> None:
    assert find_name("abc", ["abcd"], "alerts") is None
    assert find_name("abcde", ["abcd"], "alerts") is None
