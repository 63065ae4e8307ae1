"""What a user chooses: how sessions are paired, what the gate looks at, and from which severity on it fails."""

from __future__ import annotations

from enum import IntEnum, StrEnum


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


class GateOn(StrEnum):
    """Which changes for the worse fail the gate, where they are more than noise."""

    POLICY = "policy"
    BEHAVIOUR = "behaviour"
    ALL = "all"


class PairBy(StrEnum):
    """How sessions are paired."""

    AUTO = "auto"  # by task, else by id, else by content, else as two samples
    LABEL = "label"
    ID = "id"
    CONTENT = "content"
    POSITION = "position"  # the first with the first; only when asked for
    NONE = "none"  # not at all: two samples


def level_named(word: str) -> ChangeLevel:
    """Return the level that a report names, such as ``moderate``."""
    return ChangeLevel[word.upper()]


def level_of_finding(severity: str) -> ChangeLevel:
    """Return what a finding of this severity means to the gate; critical is never less than error."""
    return {"info": ChangeLevel.MINOR, "warning": ChangeLevel.MODERATE}.get(severity, ChangeLevel.SEVERE)
