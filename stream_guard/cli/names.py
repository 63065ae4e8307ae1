"""Ids on a command line: found by a beginning that only one of them has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stream_guard.errors import SettingsError

LEAST: Final = 4  # characters that somebody has to write of an id


def find_name(name: str, known: Iterable[str], what: str) -> str | None:
    """Return the one id that a name is or begins; None where there is none. Several are a SettingsError."""
    candidates = set(known)
    if name in candidates:
        return name
    if len(name) < LEAST:
        return None
    found = sorted(candidate for candidate in candidates if candidate.startswith(name))
    if len(found) > 1:
        shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
        raise SettingsError(f"{name} begins {len(found)} {what}: {shown}; write more of it")
    return found[0] if found else None
