"""Patterns over names: what a policy means by a tool, whatever an agent calls it."""

from __future__ import annotations

import pytest

from stream_guard.judge.patterns import ToolPattern


@pytest.mark.parametrize("tool", ["delete_all", "delete\nall", "delete", "delete\u2028\x00x"])
def test_a_glob_matches_whatever_stands_in_the_name(tool: str) -> None:
    assert ToolPattern("delete*").matches(tool)


@pytest.mark.parametrize("tool", ["", "undelete", "Delete", "x\ndelete_all"])
def test_a_glob_is_about_the_whole_name(tool: str) -> None:
    assert not ToolPattern("delete*").matches(tool)


def test_alternatives_and_lists_are_the_same() -> None:
    for name in ("read", "search"):
        assert ToolPattern("read|search").matches(name)
        assert ToolPattern(["read", "search"]).matches(name)
    assert not ToolPattern("read|search").matches("readsearch")


def test_a_class_stands_for_its_tools_and_for_other_classes() -> None:
    classes = {"write": ["put_*", "@money"], "money": ["pay"]}
    assert [ToolPattern("@write", classes).matches(name) for name in ("put_file", "pay", "read")] == [True, True, False]


def test_a_class_inside_itself_or_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="contains itself"):
        ToolPattern("@a", {"a": ["@b"], "b": ["@a"]})
    with pytest.raises(ValueError, match="unknown tool class"):
        ToolPattern("@c", {"a": ["x"]})


def test_invented_names_do_not_fill_the_memory() -> None:
    pattern = ToolPattern("delete*")
    for number in range(5000):
        pattern.matches(f"invented_{number}")
    assert len(pattern._memo) <= 1024
