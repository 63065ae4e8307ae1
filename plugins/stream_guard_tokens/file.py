"""Tokens from a file that somebody else renews, such as a volume with the token of a service account."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import stream_guard as sg


class MountedToken(sg.TokenSource):
    """Reads the file for every connection: the token may have been renewed, or revoked, at any time."""

    cheap: ClassVar[bool] = True

    def __init__(self, file: Path) -> None:
        self._file = file

    @classmethod
    def open(cls, settings: Any) -> Self:
        """Return the source for ``kafka.oauth_token_file``."""
        if settings.oauth_token_file is None:
            raise sg.SettingsError("kafka.oauth_source file needs kafka.oauth_token_file")
        return cls(settings.oauth_token_file)

    def fetch(self) -> sg.LoginToken:
        """Return what is in the file."""
        try:
            return sg.LoginToken(self._file.read_text(encoding="ascii").strip())
        except OSError as error:
            why = error.strerror or type(error).__name__
        except UnicodeDecodeError:
            why = "it is not text in ASCII, as tokens are"
        raise sg.TokenError(
            f"kafka.oauth_token_file: {self._file} cannot be read: {why}; look at whoever writes it",
            retryable=True,
        )
