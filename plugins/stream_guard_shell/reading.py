"""The way in: a shell command becomes what it does."""

from __future__ import annotations

from typing import Final

from stream_guard_shell.effects import CommandReading
from stream_guard_shell.expansion import Folder, literal
from stream_guard_shell.interpreter import Interpreter
from stream_guard_shell.shell import Shell

MOST_BYTES: Final = 1 << 20
"""Characters of a command that are read."""

_WORK: Final = 40_000  # steps that any command may take, and how many more for each character
_WORK_BY_CHARACTER: Final = 8


def read_command(text: str, cwd: str, home: str) -> CommandReading:
    """Return what a shell command does; nothing is run, and no file, network or environment is looked at."""
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "replace")) > MOST_BYTES:
        return CommandReading((), frozenset(("limit",)))
    interpreter = Interpreter(_WORK + _WORK_BY_CHARACTER * len(text))
    interpreter.read_all(text.replace("\0", ""), Shell(Folder(cwd), literal(home)))
    return interpreter.reading()
