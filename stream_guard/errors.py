"""Every error that this package raises on purpose. No other exception should reach a user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class StreamGuardError(Exception):
    """Base of all errors below; its text says what, where and what to do."""


class DecodeError(StreamGuardError):
    """A record cannot become events; the reason goes to the dead letter with the record."""


class SettingsError(StreamGuardError):
    """A setting, a flag or an environment variable is wrong."""


class PluginError(StreamGuardError):
    """A plugin cannot be loaded, or two plugins claim the same name."""


class FeatureNotEnabledError(StreamGuardError):
    """A setting asks for a flag in the environment, and it is not there."""


class SourceError(StreamGuardError):
    """A source cannot be opened or read any further."""


class StoreError(StreamGuardError):
    """State cannot be written or read back."""


class SinkError(StreamGuardError):
    """An alert could not be delivered; ``retryable`` says whether another try may help.

    ``retry_after`` is how many seconds the receiver asks to be left alone; 0 where it does not say.
    """

    def __init__(self, message: str, *, retryable: bool, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after


class TokenError(StreamGuardError):
    """There is no token to log in with; ``retryable`` says whether another try may help. Its text holds no secret."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


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


class PolicyError(StreamGuardError):
    """A policy cannot be used; ``problems`` lists everything that is wrong with it, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
