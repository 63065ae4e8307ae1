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
    """A command as it stands in a section of a file, with what it does."""

    section: str
    line: int
    command: str
    effects: frozenset[tuple[Any, ...]]
    opaque: frozenset[str]


def written() -> Iterator[Written]:
    for path in sorted(Path(__file__).parent.glob("cases*.txt")):
        section = ""
        found: list[tuple[str, int, str, list[str]]] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("  "):
                found[-1][3].append(line.strip())
            elif line.startswith("== "):
                section = f"{path.stem}: {line[3:]}"
            elif line.strip() and not line.startswith("# "):
                found.append((section, number, line, []))
        for name, number, command, lines in found:
            effects = frozenset(effect(line) for line in lines if not line.startswith("!"))
            opaque = frozenset(word for line in lines if line.startswith("!") for word in line[1:].split())
            yield Written(name, number, command.replace("\\n", "\n"), effects, opaque)


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


@pytest.mark.parametrize("section", list(dict.fromkeys(case.section for case in CASES)))
def test_the_commands_of_a_section_do_what_is_written(section: str) -> None:
    wrong = [told for case in CASES if case.section == section and (told := _difference(case))]
    assert not wrong, "\n".join(wrong)


def _difference(case: Written) -> str:
    """Return in words what a command is read to do and should not, and the other way round."""
    reading = read_command(case.command, PROJECT, HOME)
    got = frozenset((one.kind, one.fields) for one in reading.effects)
    if got == case.effects and reading.opaque == case.opaque:
        return ""
    extra, missing = sorted(map(str, got - case.effects)), sorted(map(str, case.effects - got))
    return f"{case.line}: {case.command!r}: extra {extra}, missing {missing}, opaque {sorted(reading.opaque)}"


def test_the_cases_cover_every_effect_and_every_reason() -> None:
    assert {kind for case in CASES for kind, _ in case.effects} == set(EFFECTS)
    assert {reason for case in CASES for reason in case.opaque} | {"limit"} == set(REASONS)
