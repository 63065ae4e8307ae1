"""Where sessions part is named, and all three classes can be reached."""

from __future__ import annotations

from typing import Any

import pytest
from stream_guard_diff.alignment import Divergence

from tests.unit.diff.sample import compared, session, turn

A, B = ("a", {"x": 1}), ("b", {"y": 2})


def first(old: dict[str, Any], new: dict[str, Any]) -> Divergence | None:
    return compared(session(old), session(new)).report.first_divergence


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (turn("", A, B), turn("", B, A), "structural"),
        (turn("", A), turn("", A, A), "structural"),
        (turn("", A, ("a", {"x": 2})), turn("", A, ("a", {"x": 3})), "decision"),
        (turn("fine"), turn("fine", stop="max_tokens"), "decision"),
        (turn("Here is your order, as you asked."), turn("I cannot help with your order."), "decision"),
        (
            turn("Your parcel left on Monday and will be with you by Thursday."),
            turn("Your parcel left on Monday; expect it by Thursday, at your door."),
            "style",
        ),
    ],
    ids=["order in a turn", "a call twice", "the second call's arguments", "stop reason", "refusal", "wording"],
)
def test_a_change_has_its_class(old: dict[str, Any], new: dict[str, Any], kind: str) -> None:
    found = first(old, new)
    assert found is not None
    assert found.kind == kind


def test_other_white_space_is_no_divergence() -> None:
    assert first(turn("one  two\nthree"), turn("one two three")) is None


def test_an_empty_candidate_parts_at_once() -> None:
    found = compared(session(turn("hello")), []).report.first_divergence
    assert found is not None
    assert (found.kind, found.baseline_turn) == ("structural", 0)


def test_structure_ranks_before_decisions_before_style() -> None:
    words = turn("Your parcel left on Monday and will be with you by Thursday.")
    other = turn("Your parcel left on Monday; expect it by Thursday, at your door.")
    old = session(words, turn("stop"), turn("", A))
    new = session(other, turn("stop", stop="max_tokens"), turn("", B))
    report = compared(old, new).report
    assert report.first_divergence is not None
    assert report.first_divergence.kind == "style"
    assert [one.kind for one in report.divergences] == ["structural", "decision", "style"]
