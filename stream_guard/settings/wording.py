"""What is wrong with a setting, in words: which one, where it was set, what was found, and what may have been meant."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from stream_guard.errors import SettingsError
from stream_guard.settings.files import line_of
from stream_guard.settings.sections import DELIMITER, PREFIX, Settings


def refuse_unknown_variables() -> None:
    """Raise SettingsError for a variable that looks like a setting of a section there is none of.

    Only names with the delimiter: an orchestrator sets STREAM_GUARD_SERVICE_HOST and the like for a
    service of that name, and those are not meant for us.
    """
    for name in sorted(os.environ):
        section, delimiter, _ = name.upper().removeprefix(PREFIX).partition(DELIMITER)
        if name.upper().startswith(PREFIX) and delimiter and section.lower() not in Settings.model_fields:
            raise SettingsError(
                f'environment variable {name}: unknown section "{section.lower()}"'
                f"{_meant(section.lower(), Settings.model_fields)}; sections: {', '.join(Settings.model_fields)}"
            )


def explain(item: ErrorDetails, given: dict[str, Any], written: dict[str, Any], file: Path | None) -> str:
    """Return what is wrong; ``given`` are the flags, ``written`` is what the file says."""
    steps = [str(step) for step in item["loc"]]
    where = _where(steps, given, written, file)
    name = ".".join(steps)
    if item["type"] != "extra_forbidden":
        secret = any(word in steps[-1] for word in ("password", "token"))
        found = "a value that is not shown" if secret else _short(item["input"])
        return f"{where}: setting {name}: {_lower(item['msg'])}; found {found}"
    prefix, known = "", list(Settings.model_fields)
    if len(steps) > 1:
        prefix, known = f"{steps[0]}.", list(getattr(Settings.model_fields[steps[0]].annotation, "model_fields", ()))
    listed = ", ".join(prefix + one for one in known)
    return f'{where}: unknown setting "{name}"{_meant(steps[-1], known, prefix)}; known: {listed}'


def _where(steps: list[str], given: dict[str, Any], written: dict[str, Any], file: Path | None) -> str:
    """Which of the layers the value came from: the highest that has it."""
    if _has(given, steps):
        return "flag"
    variables = {PREFIX + DELIMITER.join(steps[:depth]).upper() for depth in (1, 2)}
    for name in os.environ:
        if name.upper() in variables:
            return f"environment variable {name}"
    return f"{file}:{line_of(file, steps)}" if file is not None and _has(written, steps) else "settings"


def _has(data: Any, steps: list[str]) -> bool:
    for step in steps[:2]:
        if not isinstance(data, dict) or step not in data:
            return not isinstance(data, dict)
        data = data[step]
    return True


def _meant(found: str, known: Any, prefix: str = "") -> str:
    close = get_close_matches(found, list(known), 1)
    return f'; did you mean "{prefix}{close[0]}"?' if close else ""


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
