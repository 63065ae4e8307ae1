"""What a vector file is made of, and what running one of its cases can come to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a vector file."""

    name: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A case whose answer is not settled, and why."""

    reason: str


class WrongAnswerError(Exception):
    """A case whose answer is another one than expected."""


Runner = Callable[[dict[str, Any]], LeftOut | None]
"""Runs one case: returns None when it holds, says why it was left out, or raises WrongAnswerError."""


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a JSON lines file, a JSON list, or an object that holds cases in a list or by name."""
    text = path.read_text(encoding="utf-8")
    rows = (
        [json.loads(line) for line in text.splitlines() if line.strip()]
        if path.suffix == ".jsonl"
        else json.loads(text)
    )
    if isinstance(rows, dict):
        rows = _rows_of(rows)
    for number, row in enumerate(rows, 1):
        yield Case(str(row.get("name") or row.get("id") or f"{path.name}:{number}"), row)


def _rows_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Find the cases in an object: lists of them, objects by name, or the object itself."""
    inner = data.get("cases", data)
    if isinstance(inner, list):
        return inner
    if inner and all(isinstance(value, dict) for value in inner.values()):
        return [{"name": name, **value} for name, value in inner.items()]
    listed = [value for value in inner.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    return [row for rows in listed for row in rows] or [inner]


def expect(what: str, got: object, wanted: object) -> None:
    """Raise WrongAnswerError unless the two are equal."""
    if got != wanted:
        raise WrongAnswerError(f"{what}: got {got!r}, expected {wanted!r}")
