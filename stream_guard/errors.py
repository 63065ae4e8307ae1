"""Every error that this package raises on purpose. No other exception should reach a user."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard.judge.errors import DecodeError, Place, Problem, StreamGuardError

__all__ = [
    "DecodeError",
    "FeatureNotEnabledError",
    "Place",
    "PluginError",
    "PolicyError",
    "Problem",
    "SettingsError",
    "SinkError",
    "SourceError",
    "StoreError",
    "StreamGuardError",
    "TokenError",
]


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


class PolicyError(StreamGuardError):
    """A policy cannot be used; ``problems`` lists everything that is wrong with it, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
