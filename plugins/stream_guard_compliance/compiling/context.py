"""What compiling takes and gives: the tools that are known, and rules in the native form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from stream_guard import Json
from stream_guard_compliance.reading.catalogue import Catalogue

Form = dict[str, Json]

UNKNOWN_ACTION: Final = "it describes an action, and no known tool is called like it"
MOST_FOLLOWING: Final = 64  # turns in which what has to follow may come
_USABLE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


@dataclass(frozen=True, slots=True)
class CompiledReading:
    """The rules a reading became, or why it became none."""

    rules: tuple[Form, ...] = ()
    why: str = ""
    certain: bool = True  # the rule says what the sentence says, and does not guess which tools or texts are meant


@dataclass(frozen=True, slots=True)
class CompileContext:
    """What compiling needs beside the reading."""

    prompt: str
    catalogue: Catalogue
    has_results: bool = True  # without results in the trace, an attempt has to count as done


def names_of(tools: tuple[str, ...], context: CompileContext) -> list[str]:
    """Return every known spelling of the tools; what could be taken for a pattern is left out."""
    spelt = [name for tool in tools for name in context.catalogue.spellings(tool)]
    return list(dict.fromkeys(name for name in spelt if is_usable(name)))


def is_usable(name: str) -> bool:
    """Whether a name can stand in a rule and is no pattern."""
    return _USABLE.fullmatch(name) is not None


def one(kind: str, params: Form) -> CompiledReading:
    """Return one rule; without a tool that can be named, the reason."""
    if params.get("tool") == []:
        return CompiledReading(why="the tool's name could be taken for a pattern")
    return CompiledReading(({"kind": kind, "params": params},))


def params_of(form: Form) -> dict[str, Json]:
    """Return the parameters of a rule."""
    params = form.get("params")
    return params if isinstance(params, dict) else {}
