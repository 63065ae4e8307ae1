"""What a user chooses of a comparison, what is measured, and from which severity on the gate fails."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, Literal, NamedTuple, TypeAlias


class ChangeLevel(IntEnum):
    """How severe a change is. The order is the meaning, and what --fail-on compares."""

    NONE = 0
    MINOR = 1
    MODERATE = 2
    SEVERE = 3

    @property
    def word(self) -> str:
        """The name as it is written on the command line and in reports."""
        return self.name.lower()


class FailOn(StrEnum):
    """From which severity on a difference fails the gate."""

    NONE = "none"
    MINOR = "minor"
    MODERATE = "moderate"
    SEVERE = "severe"

    def fails(self, level: ChangeLevel) -> bool:
        """Whether a change of this level is at or over the gate."""
        return self is not FailOn.NONE and level >= ChangeLevel[self.name]


GateOn: TypeAlias = Literal["policy", "behaviour", "all"]
"""Which changes for the worse fail the gate, where they are more than noise."""

PairBy: TypeAlias = Literal["auto", "label", "id", "content", "position", "none"]
"""How sessions are paired. ``auto``: by task, else by id, else by content, else as two samples, as ``none`` does."""


def level_named(word: str) -> ChangeLevel:
    """Return the level that a report names, such as ``moderate``."""
    return ChangeLevel[word.upper()]


def level_of_finding(severity: str) -> ChangeLevel:
    """Return what a finding of this severity means to the gate; critical is never less than error."""
    return {"info": ChangeLevel.MINOR, "warning": ChangeLevel.MODERATE}.get(severity, ChangeLevel.SEVERE)


# The names and the weights of what is measured: which axes there are, what people call them, what blocks.

LEVEL: Final = 0.025  # how often chance alone may block by behaviour
POLICY_LEVEL: Final = 1 / 3  # of that, by the policy: its rules are few, so each needs less
LEAST_SHARE: Final = 0.05  # of the sessions: a smaller change does not matter
LEAST_RATIO: Final = 0.05  # of an amount


class MeasuredKind(NamedTuple):
    """One axis of measures."""

    title: str
    blocks: bool = True
    fault: bool = False  # what it counts is wrong by itself, so that less of it explains what else changed


MEASURED: Final = {
    "rules": MeasuredKind("rules of the policy", fault=True),
    "lesser_rules": MeasuredKind("rules of severity warning and info", blocks=False),
    "skipped_steps": MeasuredKind("steps left out", fault=True),
    "refusals": MeasuredKind("refusals", fault=True),
    "errors": MeasuredKind("failed calls", fault=True),
    "repeats": MeasuredKind("repetition", fault=True),
    "new_tools": MeasuredKind("unusual tools"),
    "arguments": MeasuredKind("odd arguments", fault=True),
    "odd_values": MeasuredKind("odd values", fault=True),
    "task_values": MeasuredKind("values that look wrong for the task", fault=True),
    "tokens": MeasuredKind("length and tokens"),
    "latency": MeasuredKind("latency"),
    "tools": MeasuredKind("tools called"),
    "order": MeasuredKind("order of calls"),
    "argument_names": MeasuredKind("names of arguments"),
    "argument_values": MeasuredKind("values of arguments"),
    "turns": MeasuredKind("length of sessions"),
    "stop_reasons": MeasuredKind("stop reasons"),
    "words": MeasuredKind("words", blocks=False),
}
