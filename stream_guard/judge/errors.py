"""What the judge refuses, and where in a file something is wrong."""

from __future__ import annotations

from dataclasses import dataclass


class StreamGuardError(Exception):
    """Base of all errors below; its text says what, where and what to do."""


class DecodeError(StreamGuardError):
    """A record cannot become events; the reason goes to the dead letter with the record."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where in a file something stands; line and column start at 1, 0 means unknown."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a policy: where, what, and what to write instead."""

    place: Place
    message: str
    code: str
    rule_id: str = ""
    warning: bool = False

    def __str__(self) -> str:
        rule = f'rule "{self.rule_id}": ' if self.rule_id else ""
        level = "warning: " if self.warning else ""
        return f"{self.place}: {level}{rule}{self.message} [{self.code}]"
