"""The two builds of a version: which one runs, and how to get the other."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from stream_guard.distribution.naming import NAME, own_version

_PACKAGE: Final = Path(__file__).parents[1]
# Which wheels the release workflow builds; elsewhere an index offers the plain one.
_COMPILED_FOR: Final = frozenset((("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")))


def is_compiled(package: Path = _PACKAGE) -> bool:
    """Whether the modules that every event goes through are compiled."""
    return any((package / "engine" / f"fold{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


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
