"""Shell vectors: what commands do, and what rules about it find in a session."""

from __future__ import annotations

import json
from typing import Any, Final

from stream_guard_shell.effects import ShellEffect
from stream_guard_shell.ownership import with_ownership
from stream_guard_shell.reading import read_command

from tests.vectors.case import CannotRunError, LeftOut, expect

CWD: Final = "/home/u/project"
HOME: Final = "/home/u"


def run(case: dict[str, Any]) -> LeftOut | None:
    """Run a case: the effects of one command, or the rule of a wish over the commands of a session."""
    if "wish" in case:
        raise CannotRunError("there are no rules about effects yet")
    reading = read_command(text_of(case["command"]), case.get("cwd", CWD), case.get("home", HOME))
    effects = with_ownership(reading.effects, frozenset(case.get("created", ())))
    expect("effects", _shown(effects), sorted(json.dumps(one, sort_keys=True) for one in case["effects"]))
    expect("opaque", sorted(reading.opaque), sorted(case["opaque"] or ()))
    return None


def text_of(command: str | list[Any]) -> str:
    """Return a command; it may be in pieces, texts and [text, times]."""
    if isinstance(command, str):
        return command
    return "".join(piece if isinstance(piece, str) else piece[0] * piece[1] for piece in command)


def _shown(effects: tuple[ShellEffect, ...]) -> list[str]:
    return sorted(json.dumps(effect.as_json(), sort_keys=True) for effect in effects)
