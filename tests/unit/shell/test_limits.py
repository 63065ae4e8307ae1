"""Whatever a command holds, reading it ends, says so where it gave up, and never raises."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from stream_guard_shell.effects import EFFECTS, REASONS, CommandReading
from stream_guard_shell.interpreter import Interpreter
from stream_guard_shell.reading import MOST_BYTES, read_command

from tests.unit.shell.made_commands import growing_commands, made_commands

HOME, PROJECT = "/home/u", "/home/u/project"


def check(command: str) -> None:
    reading = read_command(command, PROJECT, HOME)
    assert reading.opaque <= set(REASONS)
    assert {effect.kind for effect in reading.effects} <= set(EFFECTS)


@pytest.mark.parametrize(("seed", "count"), [(1, 1500), pytest.param(2, 100_000, marks=pytest.mark.slow)])
def test_made_commands_are_read_without_an_exception(seed: int, count: int) -> None:
    for command in made_commands(seed, count):
        check(command)


@pytest.mark.parametrize("size", [4000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_commands_that_grow_end(size: int) -> None:
    for command in growing_commands(size):
        check(command)


def work_of(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many steps a reading took."""
    spent = []
    spend = Interpreter.spend

    def counting(self: Interpreter, amount: int = 1) -> None:
        spent.append(amount)
        spend(self, amount)

    monkeypatch.setattr(Interpreter, "spend", counting)
    read_command(command, PROJECT, HOME)
    monkeypatch.setattr(Interpreter, "spend", spend)
    return sum(spent)


@pytest.mark.parametrize(
    "piece", ["rm a;", "(cd x; ls);", "x=1;", "echo $x;", 'rm -rf "$HOME"/a{b,c};', "git push -f;", "a | b;"]
)
def test_work_is_linear_in_the_text(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = work_of(piece * 100, monkeypatch), work_of(piece * 1000, monkeypatch)
    assert large <= 12 * small


@pytest.mark.slow
@pytest.mark.parametrize("form", ['node -e "%s"', "perl -e '%s'", "psql <<'E'\n%s\nE", "sed '%s'", "awk '%s'"])
@pytest.mark.parametrize(
    "piece",
    [
        *("a.", "a ", "process.env", "\\'", "a(", "qx{", "%x(", "\\`\n", "$a$", "/*", "a::", "x ('"),
        *("print ", "print a|", 'print "a" > ', "s/a/b/;", "1,", "/a", "\\\n", "w x\n", "\n\\! a", "copy "),
    ],
)
def test_code_and_sql_take_no_more_than_twice_as_long_for_twice_the_text(form: str, piece: str) -> None:
    if form.startswith(("perl", "sed", "awk")) and "'" in piece:
        return
    # Of three tries the shortest: a quadratic reader takes four times as long, and seconds.
    short, long = (min(cpu_of(form.replace("%s", piece * count)) for _ in range(3)) for count in (2000, 4000))
    assert long < 3 * short + 0.01


def cpu_of(command: str) -> float:
    began = time.process_time()
    check(command)
    return time.process_time() - began


@pytest.mark.long
@pytest.mark.parametrize("size", [500, 6_000])
def test_memory_is_bounded(size: int) -> None:
    tracemalloc.start()
    for command in growing_commands(size):
        check(command)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * MOST_BYTES


def test_a_quarter_of_a_mebibyte_is_read() -> None:
    padding = (
        "echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
    )
    reading = read_command(padding * (262_144 // len(padding)) + "rm x", PROJECT, HOME)
    assert [effect.as_json() for effect in reading.effects] == [{"effect": "delete", "path": f"{PROJECT}/x"}]
    assert not reading.opaque


def test_over_a_mebibyte_nothing_is_read() -> None:
    assert read_command("rm x;" + " " * MOST_BYTES, PROJECT, HOME) == CommandReading((), frozenset(("limit",)))
    assert read_command("rm x;" + "é" * (MOST_BYTES // 2), PROJECT, HOME) == CommandReading((), frozenset(("limit",)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("( ", " )"),
        ("{ ", "; }"),
        ("$(", ")"),
        ("if true; then ", "; fi"),
        ("eval ", ""),
        ("sudo ", ""),
        ("echo $(", ")"),
    ],
)
def test_sixteen_levels_are_read_and_five_hundred_are_not(before: str, after: str) -> None:
    deep = read_command(before * 16 + "rm x" + after * 16, PROJECT, HOME)
    assert any(effect.kind == "delete" for effect in deep.effects)
    assert "limit" not in deep.opaque
    far = read_command(before * 500 + "rm x" + after * 500, PROJECT, HOME)
    assert "limit" in far.opaque or any(effect.kind == "delete" for effect in far.effects)


def test_a_deep_reading_does_not_hang_on_the_stack_of_its_caller() -> None:
    commands = [before * 60 + "rm x" + after * 60 for before, after in (("( ", " )"), ("$(", ")"), ("{ ", "; }"))]
    here = [read_command(command, PROJECT, HOME) for command in commands]

    def deeper(levels: int) -> list[object]:
        return deeper(levels - 1) if levels else [read_command(command, PROJECT, HOME) for command in commands]

    assert deeper(200) == here
