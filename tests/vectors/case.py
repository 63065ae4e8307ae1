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
    """Yield the cases of a JSON lines file, a JSON list, or a JSON object with a list of cases in it."""
    text = path.read_text(encoding="utf-8")
    rows = (
        [json.loads(line) for line in text.splitlines() if line.strip()]
        if path.suffix == ".jsonl"
        else json.loads(text)
    )
    if isinstance(rows, dict):
        rows = next((value for value in rows.values() if isinstance(value, list)), [rows])
    for number, row in enumerate(rows, 1):
        yield Case(str(row.get("name") or row.get("id") or f"{path.name}:{number}"), row)


def expect(what: str, got: object, wanted: object) -> None:
    """Raise WrongAnswerError unless the two are equal."""
    if got != wanted:
        raise WrongAnswerError(f"{what}: got {got!r}, expected {wanted!r}")
