"""Write plain data as YAML that people can edit and that reads back as the same data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from stream_guard.judge.model import Json
from stream_guard.policy.scalars import is_plain_text

WIDTH: Final = 110
_BARE: Final = re.compile(r"[A-Za-z_./$][A-Za-z0-9_./@$*-]*(?: [A-Za-z0-9_./@$*(-][A-Za-z0-9_./@$*()-]*)*")
# Words that YAML 1.1, which other tools may read the file with, takes for booleans.
_OLD_BOOLEANS: Final = frozenset(("yes", "no", "on", "off"))


def write_yaml(data: Json) -> str:
    """Return the YAML of a mapping or list; a short value is written on one line."""
    return "\n".join(_block(data, 0)) + "\n"


def _block(value: Json, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, dict) and value:
        for key, item in value.items():
            name = f"{pad}{_scalar(key)}:"
            yield from _entry(name, item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _item(item, indent)
    else:
        yield pad + _flow(value)


def _entry(name: str, item: Json, indent: int) -> Iterator[str]:
    if _on_one_line(item, len(name) + 1, is_top=indent == 0):
        yield f"{name} {_flow(item)}"
    else:
        yield name
        yield from _block(item, indent + 2)


def _item(item: Json, indent: int) -> Iterator[str]:
    """Yield the lines of a list item; the first one has the dash."""
    if _on_one_line(item, indent + 2, is_top=indent <= 2 and isinstance(item, dict)):
        yield f"{' ' * indent}- {_flow(item)}"
        return
    first, *rest = _block(item, indent + 2)
    yield f"{' ' * indent}- {first.lstrip(' ')}"
    yield from rest


def _on_one_line(value: Json, column: int, *, is_top: bool) -> bool:
    """Whether the value reads well in one line: short, and not the frame of the file."""
    if not isinstance(value, dict | list) or not value:
        return True
    items = value.values() if isinstance(value, dict) else value
    deep = isinstance(value, list) and any(isinstance(item, dict | list) for item in items)
    return not is_top and not deep and column + len(_flow(value)) <= WIDTH


def _flow(value: Json) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Json) -> str:
    if not isinstance(value, str):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
        return json.dumps(int(value) if whole else value)
    if _BARE.fullmatch(value) and is_plain_text(value) and value.lower() not in _OLD_BOOLEANS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)
