"""Every program that is known, and how a name finds it."""

from __future__ import annotations

import unicodedata
from typing import Final

from stream_guard_shell.shell import Handler
from stream_guard_shell.tools import (
    builtins,
    databases,
    editing,
    files,
    finding,
    git,
    infra,
    install,
    languages,
    network,
    programs,
    reading,
    system,
    wrappers,
)

_FAMILIES: Final = (
    reading, editing, programs, files, finding, git, network, install, infra, databases, system, wrappers,
    builtins, languages,
)  # fmt: skip
TABLE: Final[dict[str, Handler]] = {name: handler for family in _FAMILIES for name, handler in family.TOOLS.items()}
_LONGEST: Final = 256


def find_tool(name: str) -> tuple[Handler | None, str, bool]:
    """Return what reads a program, its name, and whether that is written as it is known.

    A path names its tool by the last part. A name that equals a known one only after NFKC and without zero-width
    signs is judged as that one.
    """
    last = name.rpartition("/")[2][:_LONGEST]
    handler = _by_name(last)
    if handler is not None:
        return handler, last, True
    if last.isascii():
        return None, name, True
    plain = "".join([char for char in unicodedata.normalize("NFKC", last) if unicodedata.category(char) != "Cf"])
    handler = _by_name(plain)
    return (handler, plain, False) if handler is not None else (None, name, True)


def is_in_bin(path: str) -> bool:
    """Whether a path is in a folder of programs, so that it names the tool of its last part and nothing else."""
    return path.rpartition("/")[0].rpartition("/")[2] in ("bin", "sbin", ".bin")


def is_runner(tool: str) -> bool:
    """Whether a tool only runs tasks of a project."""
    return tool in programs.TOOLS


def _by_name(name: str) -> Handler | None:
    if name.startswith("mkfs."):
        return system.disk
    if languages.is_python(name):
        return languages.python
    return TABLE.get(name)
