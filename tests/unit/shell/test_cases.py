"""Commands and what they do: every row of every table, both ways, in words of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from stream_guard_shell.effects import EFFECTS, REASONS
from stream_guard_shell.reading import read_command

PROJECT, HOME = "/home/u/project", "/home/u"


class Written(NamedTuple):
    """A command as it stands in the file, with what it does."""

    line: int
    command: str
    effects: frozenset[tuple[Any, ...]]
    opaque: frozenset[str]


def written() -> Iterator[Written]:
    for path in sorted(Path(__file__).parent.glob("cases*.txt")):
        found: list[tuple[int, str, list[str]]] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("  "):
                found[-1][2].append(line.strip())
            elif line.strip() and not line.startswith(("# ", "==")):
                found.append((number, line, []))
        for number, command, lines in found:
            effects = frozenset(effect(line) for line in lines if not line.startswith("!"))
            opaque = frozenset(word for line in lines if line.startswith("!") for word in line[1:].split())
            yield Written(number, command.replace("\\n", "\n"), effects, opaque)


def effect(line: str) -> tuple[Any, ...]:
    """Return an effect as it is compared: its kind, and its fields as sorted pairs."""
    kind, *words = line.split()
    fields: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith(("/", "@", "~")):
            fields["path"] = text_of(word)
        elif name == "packages":
            fields[name] = tuple(text_of(one) for one in value.split(",") if one)
        elif equals:
            fields[name] = text_of(value)
        else:
            fields[word] = True
    assert kind in EFFECTS, kind
    return kind, tuple(sorted(fields.items()))


def text_of(word: str) -> str:
    """Return a word with the project, the home and blanks in place of their signs; behind a backslash they stay."""
    for sign, folder in (("@", PROJECT), ("~", HOME)):
        if word == sign or word.startswith(sign + "/"):
            word = folder + word[1:]
    return word.removeprefix("\\").replace("%20", " ")


CASES = list(written())


@pytest.mark.parametrize("case", CASES, ids=[f"{case.line}-{case.command[:40]}" for case in CASES])
def test_the_command_does_what_is_written(case: Written) -> None:
    reading = read_command(case.command, PROJECT, HOME)
    assert frozenset((one.kind, one.fields) for one in reading.effects) == case.effects
    assert reading.opaque == case.opaque


def test_the_cases_cover_every_effect_and_every_reason() -> None:
    assert {kind for case in CASES for kind, _ in case.effects} == set(EFFECTS)
    assert {reason for case in CASES for reason in case.opaque} | {"limit"} == set(REASONS)
