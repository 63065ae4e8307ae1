"""What a vector file is made of, and what running one of its cases can come to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a vector file."""

    name: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A case whose answer is not settled, or that cannot be run here, and why."""

    reason: str


class WrongAnswerError(Exception):
    """A case whose answer is another one than expected."""


class CannotRunError(Exception):
    """A case that asks for something this runner does not know, or this machine does not have."""


Runner = Callable[[dict[str, Any]], LeftOut | None]
"""Runs one case: returns None when it holds, says why it was left out, or raises WrongAnswerError."""


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a JSON lines, JSON or YAML file: a list of them, or an object that holds cases."""
    text = path.read_text(encoding="utf-8")
    rows: Any
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    elif path.suffix in (".yaml", ".yml"):
        rows = YAML(typ="safe", pure=True).load(text)
    else:
        rows = json.loads(text)
    if isinstance(rows, dict):
        rows = _rows_of(rows)
    for number, row in enumerate(rows, 1):
        yield Case(_name_of(row) or f"{path.name}:{number}", row)


def _name_of(row: dict[str, Any]) -> str:
    name = str(row.get("name") or row.get("id") or "")
    return f"{row['pattern']}/{name}" if name and isinstance(row.get("pattern"), str) else name


def _rows_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Find the cases in an object: lists of them, objects by name, or the object itself."""
    inner = data.get("cases", data)
    if isinstance(inner, list):
        return inner
    if inner and all(isinstance(value, dict) for value in inner.values()):
        return [{"name": name, **value} for name, value in inner.items()]
    listed = [value for value in inner.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    return [row for rows in listed for row in rows] or [inner]


def run_case(runner: Runner, data: dict[str, Any]) -> LeftOut | str | None:
    """Run one case; a crash is a failure of that case, not of the run."""
    try:
        return runner(data)
    except CannotRunError as error:
        return LeftOut(str(error))
    except WrongAnswerError as wrong:
        return str(wrong)
    except Exception as error:  # noqa: BLE001  # an unseen file may break anything; the other cases still count
        return f"raised {error!r}"


def expect(what: str, got: object, wanted: object) -> None:
    """Raise WrongAnswerError unless the two are equal."""
    if got != wanted:
        raise WrongAnswerError(f"{what}: got {got!r}, expected {wanted!r}")


def preferred(case: dict[str, Any], wanted: Any) -> Any:
    """Return the answer with the suggestion of the case (``better``) in place of what it replaces.

    A suggestion is a whole answer, or an object with some keys of one; null, or a reason alone, suggests nothing.
    """
    better = case.get("better")
    if isinstance(better, dict):
        changes = {key: value for key, value in better.items() if key not in ("why", "note", "reason")}
        if not changes:
            return wanted
        if isinstance(wanted, dict):
            return {**wanted, **changes}
        return next(iter(changes.values())) if len(changes) == 1 else wanted
    return wanted if better is None or isinstance(better, str) else better


def check_fields(what: str, found: dict[str, Any], known: frozenset[str]) -> None:
    """Raise CannotRunError when there is a field that this runner would pass over."""
    strange = sorted(set(found) - known)
    if strange:
        raise CannotRunError(f"this runner does not know {what}: {', '.join(strange)}")
