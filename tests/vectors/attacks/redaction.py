"""Texts and values through redaction: what may be shown, and what must not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stream_guard.redaction import redact
from tests.vectors.attacks.expectations import Outcome
from tests.vectors.attacks.steps import text_of, value_of
from tests.vectors.case import CannotRunError, WrongAnswerError, check_fields

_KEYS = frozenset(("text", "value", "context", "must_contain", "must_not_contain", "expect", "note", "why"))


class Redacting:
    """The redaction of alerts and reviews."""

    def __init__(self, _case: dict[str, Any], _folder: Path) -> None:
        pass

    def take(self, action: str, step: dict[str, Any]) -> dict[str, Any]:
        """Redact a text or a value and look at what is left of it."""
        check_fields("the field of a step", step, _KEYS)
        if action == "text":
            shown = redact(text_of(step["text"]))
        elif action == "value":
            shown = json.dumps(redact(value_of(step["value"])), ensure_ascii=False)
        else:
            raise CannotRunError(f"the step {action} has no place in redaction")
        missing = [text for one in step.get("must_contain", ()) if (text := text_of(one)) not in shown]
        leaked = [text for one in step.get("must_not_contain", ()) if (text := text_of(one)) in shown]
        if missing or leaked:
            context = f" ({step['context']})" if "context" in step else ""
            raise WrongAnswerError(f"{shown!r}{context}: missing {missing}, shown {leaked}")
        return {"text": shown}

    def finish(self) -> Outcome:
        """Return nothing: the steps say it all."""
        return Outcome()

    def close(self) -> None:
        """Leave nothing open."""
