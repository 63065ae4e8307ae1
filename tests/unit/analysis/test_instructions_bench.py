"""The history of counted instructions: every line says what moved them, and on what they were counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import format_instructions, instructions
from tests.formats.test_corpus import RENDERERS


def test_every_kept_line_can_be_compared_with_the_next() -> None:
    kept = list(instructions.history())
    assert kept
    for row in kept:
        assert set(row) == {"change", "on", "counted"}
        assert 8 <= len(row["change"]) <= 72, "the subject of a commit"
        assert set(row["counted"]) <= {"plain", "compiled"}
        for parts in row["counted"].values():
            assert parts.keys() <= kept[-1]["counted"]["compiled"].keys()
            assert all(type(number) is int and number > 0 for number in parts.values())


def test_what_is_kept_is_what_the_next_run_is_held_against(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(instructions, "HISTORY", tmp_path / "history.jsonl")
    (tmp_path / "history.jsonl").write_text('{"change": "elsewhere", "on": "another machine", "counted": {}}\n')
    assert instructions.last_kept() == {}
    instructions.keep("Do less", {"plain": {"decode": 1000}})
    instructions.show({"plain": {"decode": 900, "gate": 5}}, instructions.last_kept())
    first, second = capsys.readouterr().out.splitlines()
    assert "900" in first
    assert "-10.0%" in first
    assert "%" not in second


def test_a_dump_without_a_total_is_no_zero(tmp_path: Path) -> None:
    (tmp_path / "counted.1").write_text("events: Ir\nsummary: 42\n")
    assert instructions.total(tmp_path / "counted.1") == 42
    (tmp_path / "counted.2").write_text("events: Ir\n")
    with pytest.raises(AssertionError, match="functools_reduce"):
        instructions.total(tmp_path / "counted.2")


def test_no_format_but_one_takes_more_instructions_than_before_views_of_a_call_were_merged() -> None:
    kept = format_instructions.kept()
    assert kept["now"].keys() == RENDERERS.keys()
    assert kept["before"].keys() < kept["now"].keys()
    more = {name: kept["now"][name] / number for name, number in kept["before"].items() if kept["now"][name] > number}
    # Lines of a session that was resumed are told from those that they repeat: that has its price.
    assert more.pop("claude-code", 1.0) < 1.25
    assert more == {}
