"""States in words: the fields of a rule's state that say something, short enough for a line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from zlib import crc32

import msgspec

from stream_guard.judge.forgotten import Sketch
from stream_guard.judge.model import Json
from stream_guard.judge.rule import State
from stream_guard.redaction import redact_text

_MOST_FIELDS: Final = 8
_MOST_ITEMS: Final = 3
_MOST_CHARS: Final = 60
_ATTEMPTS: Final = 1 << 24  # attempts of one session are numbered from an offset of its own

_EARLIEST: Final = 1e9  # a number between these is a time, in seconds since the epoch
_LATEST: Final = 1e11
_LARGE: Final = 1 << 40  # a number from here on is a fingerprint, which says nothing to a person

_DIGEST: Final = re.compile(r"(?=.*[A-Z0-9])[A-Za-z0-9_-]{16}|[0-9a-f]{32}")

NOTHING: Final = "nothing yet"


class StateWords:
    """Writes the states of one session: attempts get their number in the session."""

    def __init__(self, session_id: str) -> None:
        self._first_attempt = crc32(session_id.encode("utf-8", "surrogatepass")) << 24

    def describe(self, state: State) -> str:
        """Return the fields that differ from those of a new state."""
        fields = self._fields(state)
        return ", ".join(fields) if fields else NOTHING

    def _fields(self, state: State) -> list[str]:
        try:
            fresh = type(state)()
        except TypeError:  # a part of a state, which has no defaults
            fresh = None
        shown = []
        for name in state.__struct_fields__:
            value = getattr(state, name)
            if value is None or value == "" or (fresh is not None and value == getattr(fresh, name)):
                continue
            shown.append(self._field(name.replace("_", " ").strip(), value))
        return shown if len(shown) <= _MOST_FIELDS else [*shown[:_MOST_FIELDS], f"{len(shown) - _MOST_FIELDS} more"]

    def _field(self, name: str, value: Json) -> str:
        if value is True:
            return name
        return f"{name} {self._value(value)}"

    def _value(self, value: Json) -> str:  # noqa: PLR0911  # one for each sort of value
        if isinstance(value, State):
            return f"({', '.join(self._fields(value))})"
        if isinstance(value, bool) or value is None:
            return "none" if value is None else "yes" if value else "no"
        if isinstance(value, int):
            return self._number(value)
        if isinstance(value, float):
            return _time(value) if _EARLIEST <= value < _LATEST else f"{value:.10g}"
        if isinstance(value, str):
            return _short(value)
        if isinstance(value, bytes | Sketch):
            return "[fingerprints]"
        if isinstance(value, dict | list | tuple | set | frozenset) and self._is_fingerprints(list(value)):
            return f"[{len(value)} {'fingerprint' if len(value) == 1 else 'fingerprints'}]"
        if isinstance(value, dict):
            latest = [f"{self._value(key)}: {self._value(item)}" for key, item in list(value.items())[-_MOST_ITEMS:]]
            return self._listed(latest, len(value))
        if isinstance(value, list | tuple | set | frozenset):
            latest = [self._value(item) for item in list(value)[-_MOST_ITEMS:]]
            return self._listed(latest, len(value))
        return _short(str(value))

    def _number(self, value: int) -> str:
        if self._is_own_attempt(value):
            return f"#{value - self._first_attempt + 1}"
        return "a fingerprint" if value >= _LARGE else f"{value}"

    def _is_own_attempt(self, value: int) -> bool:
        return bool(self._first_attempt) and 0 <= value - self._first_attempt < _ATTEMPTS

    def _is_fingerprints(self, items: list[Json]) -> bool:
        """Whether a list, or the keys of a table, are fingerprints; one in 65,536 of these is a smaller number."""
        large = [item for item in items if type(item) is int and item >= _LARGE and not self._is_own_attempt(item)]
        return bool(items) and len(large) > len(items) // 2

    def _listed(self, shown: list[str], size: int) -> str:
        inside = ", ".join(shown)
        if len(inside) > 3 * _MOST_CHARS:
            inside = f"{inside[: 3 * _MOST_CHARS]}…"
        return f"[{inside}]" if size <= len(shown) else f"[{size} in all, the last: {inside}]"


def take(state: State) -> bytes:
    """Return the state as bytes, to tell later whether it changed."""
    return msgspec.msgpack.encode(state)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def _short(text: str) -> str:
    if _DIGEST.fullmatch(text):
        return f"{text[:6]}…"  # a digest: it says no more than which one it is
    shown = "".join(char if char.isprintable() else " " for char in redact_text(text))
    return f'"{shown}"' if len(shown) <= _MOST_CHARS else f'"{shown[:_MOST_CHARS]}…"'
