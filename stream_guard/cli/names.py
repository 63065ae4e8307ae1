"""Ids on a terminal: shortened to a prefix that only one of them has, and found again by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from stream_guard.errors import SettingsError

LEAST: Final = 4  # characters that somebody has to write of an id
SHOWN: Final = 8  # characters that are shown, where they are enough


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


def shorten(ids: Collection[str], least: int = SHOWN) -> dict[str, str]:
    """Return for each id the shortest prefix, of so many characters or more, that no other one begins with."""
    ordered = sorted(set(ids))
    short: dict[str, str] = {}
    for place, name in enumerate(ordered):
        neighbours = [ordered[other] for other in (place - 1, place + 1) if 0 <= other < len(ordered)]
        shared = max((_shared(name, other) for other in neighbours), default=0)
        short[name] = name[: max(least, shared + 1)]
    return short


def _shared(first: str, second: str) -> int:
    """Return how many characters two ids have in common at their beginning."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length
