"""The distribution: its name and version, which of its two builds runs, and how to get what is missing."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

__all__ = ["COMMAND", "NAME", "describe_build", "install_line", "is_compiled", "other_build", "own_version"]


# The two builds of a version: which one runs, and how to get the other.


_PACKAGE: Final = Path(__file__).parents[1]
# Which wheels the release workflow builds; elsewhere an index offers the plain one.
_COMPILED_FOR: Final = frozenset((("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")))


def is_compiled(package: Path = _PACKAGE) -> bool:
    """Whether the modules that every event goes through are compiled."""
    return any((package / "judge" / f"fold{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


def describe_build() -> str:
    """Return the version, which build it is, and on what it runs."""
    build = "compiled" if is_compiled() else "plain"
    python, machine = ".".join(map(str, sys.version_info[:3])), os.uname()
    return f"{own_version()} ({build} build, Python {python}, {machine.sysname} {machine.machine})"


def other_build(package: Path = _PACKAGE) -> str:
    """Return what the other build is good for, and the command that installs it."""
    anew = "pip install --force-reinstall --no-deps"
    if is_compiled():
        return f"the plain build, for debuggers and profilers: {anew} --no-binary {NAME} {NAME}"
    praise = "the compiled build finds the same in less time"
    if (package.parent / "Makefile").exists():
        return f"{praise}: `make compiled` builds it beside the sources of this clone"
    if (sys.platform, os.uname().machine) in _COMPILED_FOR:
        return f"{praise}: {anew} --only-binary {NAME} {NAME}"
    by_hand = f"HATCH_BUILD_HOOK_ENABLE_CUSTOM=true {anew} --no-binary {NAME} {NAME}"
    return f"{praise}; there is no wheel for this machine, build one: {by_hand}"


# The name of the distribution: pyproject.toml says it to the index, this to the code; a test compares the two.


NAME: Final = "agent-stream-guard"
COMMAND: Final = "stream-guard"


def install_line(extra: str = "") -> str:
    """Return the command that installs the distribution, with an extra of it."""
    return f"pip install '{NAME}[{extra}]'" if extra else f"pip install {NAME}"


def own_version() -> str:
    """Return the version that is installed; ``unknown`` for sources that are only on the path."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # 20 ms, and most starts need none

    try:
        return version(NAME)
    except PackageNotFoundError:
        return "unknown"
