"""Runs a case on its surface, and compares each step and the whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from tests.vectors.attacks.expectations import Outcome, complaint
from tests.vectors.attacks.files import Checking
from tests.vectors.attacks.inline import Inline
from tests.vectors.attacks.redaction import Redacting
from tests.vectors.attacks.served import Served
from tests.vectors.attacks.steps import action_of, expand
from tests.vectors.attacks.stream import Streamed
from tests.vectors.attacks.topic import Topic
from tests.vectors.case import CannotRunError, LeftOut, WrongAnswerError, check_fields

_SAID: Final = ("name", "id", "group", "attack", "benign", "why", "spec", "note")
_TOOLS: Final = ("catalogue", "executor")
_HOW: Final = ("surface", "policy", "settings", "needs", "tokens")
_FIELDS: Final = frozenset((*_SAID, *_TOOLS, *_HOW, "steps", "expect", "decide"))
_RUN: Final = frozenset(("history", "checkpoint", "from_format", "source", "command", "seconds", "clock"))
_SECTIONS: Final = frozenset(("api", "decode", "reviews", "sessions", "worker", "serve", "commit", "kafka", "run"))


class Surface(Protocol):
    """A place where the product is met."""

    def take(self, action: str, step: dict[str, Any]) -> dict[str, Any]:
        """Carry out a step and return the answer; CannotRunError for a step that has no place here."""

    def finish(self) -> Outcome:
        """Come to the end of the case and return what it came to."""

    def close(self) -> None:
        """End every process and connection that is still there."""


def run(case: dict[str, Any]) -> LeftOut | None:
    """Carry out the steps; raise WrongAnswerError at the first answer that is another than expected."""
    check_fields("the field of a case", case, _FIELDS)
    if "decide" in case:
        return LeftOut("decide: a choice of the policy, not part of the count")
    settings = case.get("settings", {})
    check_fields("the section of the settings", settings, _SECTIONS)
    check_fields("what is said of the run", settings.get("run", {}), _RUN)
    with TemporaryDirectory(prefix="attack-") as folder:
        surface = _open(case, Path(folder))
        try:
            _carry_out(case, surface)
        finally:
            surface.close()
    return None


def _carry_out(case: dict[str, Any], surface: Surface) -> None:
    for number, step in enumerate(expand(case["steps"])):
        action = action_of(step)
        told = surface.take(action, step)
        wrong = complaint(step.get("expect", {}), told)
        if wrong:
            raise WrongAnswerError(f"step {number} ({action}): {wrong}")
    outcome = surface.finish()
    told = outcome.told()
    told["limits"] = {name: told.get(name, float("inf")) for name in ("memory_mb", "seconds", "history_mb")}
    wrong = complaint(case.get("expect", {}), told)
    if wrong:
        raise WrongAnswerError(wrong)


def _open(case: dict[str, Any], folder: Path) -> Surface:
    needs = case.get("needs")
    if needs not in (None, "broker"):
        raise CannotRunError(f"this runner does not know the need {needs}")
    surface = case["surface"]
    if needs == "broker":
        return Topic(case, folder)
    if surface == "file" and any("file" in step for step in case["steps"]):
        return Checking(case, folder)
    make = _SURFACES.get(surface)
    if make is None:
        raise CannotRunError(f"this runner does not know the surface {surface}")
    return make(case, folder)


_SURFACES: Final[dict[str, Callable[[dict[str, Any], Path], Surface]]] = {
    "inline": Inline,
    "http": Served,
    "stream": Streamed,
    "file": Streamed,
    "redaction": Redacting,
}
