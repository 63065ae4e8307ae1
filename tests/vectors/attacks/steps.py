"""The steps of a case as they are carried out: repeats written out, long texts joined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.vectors.case import CannotRunError

DETAILS: Final = frozenset(("expect", "as", "policy", "encoding", "context", "note", "why", "token"))
"""Keys of a step that do not say what it does."""


def expand(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps, those of a ``repeat`` as often as it says."""
    for step in steps:
        if "repeat" not in step:
            yield step
            continue
        rest = {key: value for key, value in step.items() if key not in ("repeat", "steps")}
        inner = list(expand(step["steps"])) if "steps" in step else [rest]
        for number in range(int(step["repeat"])):
            for one in inner:
                yield fill(one, number)


def fill(value: Any, number: int) -> Any:
    """Return the value with the number of the repetition in its texts, and steps of numbers counted up."""
    if isinstance(value, str):
        return value.replace("{n}", str(number))
    if isinstance(value, list):
        return [fill(item, number) for item in value]
    if isinstance(value, dict):
        if set(value) == {"from", "step"}:
            return value["from"] + number * value["step"]
        return {fill(key, number): fill(item, number) for key, item in value.items()}
    return value


def action_of(step: dict[str, Any]) -> str:
    """Return the one key that says what the step does."""
    found = [key for key in step if key not in DETAILS and not key.startswith("must_")]
    if len(found) != 1:
        raise CannotRunError(f"this runner does not know the step {', '.join(found) or 'without a key'}")
    return found[0]


def text_of(value: Any) -> str:
    """Return a text: written as it is, or in pieces, each a string or [text, times]."""
    if isinstance(value, dict) and set(value) == {"pieces"}:
        value = value["pieces"]
    if isinstance(value, list):
        return "".join(piece if isinstance(piece, str) else str(piece[0]) * int(piece[1]) for piece in value)
    return str(value)


def value_of(value: Any) -> Any:
    """Return a value with the texts in it joined that are written as ``{"pieces": [...]}``."""
    if isinstance(value, dict):
        if set(value) == {"pieces"}:
            return text_of(value)
        return {key: value_of(item) for key, item in value.items()}
    return [value_of(item) for item in value] if isinstance(value, list) else value


def plain_event(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event or call as it is sent: arguments that a model wrote are the text it wrote."""
    sent = dict(event)
    if "args_text" in sent:
        sent["args"] = text_of(sent.pop("args_text"))
    return sent
