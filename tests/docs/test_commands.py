"""Commands on the pages exist, with the options and as many arguments as the pages give them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from stream_guard.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
END: Final = re.compile(r"[|<>&;]|2>.*|.*;")  # what a shell keeps for itself
LEFT_OUT: Final = ("...", "…", "[", "{")  # a pattern of a command, not a command
HELP: Final = {"--help", "--version", "--install-completion", "--show-completion"}


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in code, as far as a shell would hand them to the program."""
    joined = re.sub(r"\\\n\s*", " ", text)
    spans = re.findall(r"`(stream-guard [^`\n]+)`", joined)
    for code in [*spans, *re.findall(r"(?m)^(?: {4,})?(?:\$ )?(stream-guard .+)$", joined)]:
        try:
            words = shlex.split(code, comments=True)[1:]
        except ValueError:
            continue  # a sentence that begins with the name
        yield words[: next((place for place, word in enumerate(words) if END.fullmatch(word)), len(words))]


def find(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words begin with, or None, and the rest of the words."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        command, words = command.get_command(typer.Context(command), words[0]), words[1:]
    return (command.load() if hasattr(command, "load") else command), words


def flaw(words: list[str]) -> str:
    """Return what is wrong with a command; empty when nothing is."""
    command, rest = find(words)
    if command is None:
        return "there is no such command"
    takes_value = {
        name: not getattr(option, "is_flag", False)
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("-")
    }
    places = [one.nargs for one in command.params if one.param_type_name == "argument"]
    given, words = 0, list(rest)
    while words:
        name, has_value, _ = words.pop(0).partition("=")
        if name == "--":  # what follows is another program's
            break
        if not name.startswith("-") or name == "-":
            given += 1
        elif name not in takes_value and name not in HELP:
            return f"there is no option {name}"
        elif takes_value.get(name) and not has_value:
            words[:1] = []
    return f"{given} arguments, where {len(places)} are taken" if given > len(places) and -1 not in places else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_can_be_given(page: Path) -> None:
    told = [words for words in commands(page.read_text()) if not any(mark in " ".join(words) for mark in LEFT_OUT)]
    assert [f"{' '.join(words)}: {wrong}" for words in told if (wrong := flaw(words))] == []


def test_a_command_that_is_not_there_would_be_found() -> None:
    page = "Say `stream-guard docter` or\n\n    stream-guard doctor kafka:///x --polcy p \\\n      | cat --nothing\n"
    assert [flaw(words) for words in commands(page)] == ["there is no such command", "there is no option --polcy"]
    assert flaw(["doctor", "kafka:///x"]) == "1 arguments, where 0 are taken"
    assert flaw(["doctor", "--kafka", "kafka:///x"]) == ""
