"""Tokens that a command prints."""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

import stream_guard as sg


class TokenCommand(sg.TokenSource):
    """Runs a command without a shell. Its arguments and its standard error may hold secrets, and are not shown."""

    def __init__(self, words: Sequence[str], timeout: float) -> None:
        self._words = words
        self._timeout = timeout

    @classmethod
    def open(cls, settings: Any) -> Self:
        """Return the source for ``kafka.oauth_command``."""
        written = settings.oauth_command.get_secret_value() if settings.oauth_command is not None else ""
        try:
            words = shlex.split(written)
        except ValueError as error:
            raise sg.SettingsError(f"kafka.oauth_command cannot be split into words: {error}") from None
        if not words:
            raise sg.SettingsError("kafka.oauth_source command needs kafka.oauth_command")
        return cls(words, settings.oauth_timeout)

    def fetch(self) -> sg.LoginToken:
        """Return what the command prints."""
        began = time.time()
        printed = self._run().strip()
        if printed.startswith(b"{"):
            answer = read_answer(printed)
            if answer is None:
                raise self._error("printed JSON without an access_token of the type Bearer", retryable=False)
            return answer.token(began)
        try:
            return sg.LoginToken(printed.decode("ascii"))
        except UnicodeDecodeError:
            raise self._error("printed something that is no token", retryable=False) from None

    def _run(self) -> bytes:
        try:
            process = subprocess.Popen(  # noqa: S603  # whoever writes the settings may run what they like
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that what the command starts can be ended with it
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "its words cannot be passed on"
            raise self._error(f"cannot be started: {why}", retryable=False) from None
        with process:
            try:
                printed, _ = process.communicate(timeout=self._timeout)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise self._error(
                    f"printed no token within {self._timeout:g} s (kafka.oauth_timeout)", retryable=True
                ) from None
        if process.returncode:
            raise self._error(f"ended with exit code {process.returncode}", retryable=True)
        return printed

    def _error(self, what: str, *, retryable: bool) -> sg.TokenError:
        return sg.TokenError(
            f"kafka.oauth_command: {self._words[0]} {what}; run it by hand, as the same user, to see why",
            retryable=retryable,
        )


# The answers of an OAuth 2.0 endpoint, as RFC 6749 writes them.


class TokenAnswer(msgspec.Struct, frozen=True):
    """The fields that are used. The lifetime is a number, or a text with one."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105  # the kind of token
    expires_in: float | str | None = None

    def token(self, asked_at: float) -> sg.LoginToken:
        """Return the token. Its lifetime began, at the earliest, when it was asked for."""
        try:
            seconds = math.nan if self.expires_in is None else float(self.expires_in)
        except ValueError:
            seconds = math.nan
        return sg.LoginToken(self.access_token, asked_at + seconds if math.isfinite(seconds) else None)


class Refusal(msgspec.Struct, frozen=True):
    """Why there is no token."""

    error: str = ""
    error_description: str = ""


def read_answer(body: bytes) -> TokenAnswer | None:
    """Return the answer; None for anything else. Why is not said: the reason could quote the token."""
    try:
        answer = msgspec.json.decode(body, type=TokenAnswer)
    except msgspec.DecodeError:
        return None
    return answer if answer.token_type.lower() == "bearer" else None


# Tokens from a file that somebody else renews, such as a volume with the token of a service account.


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
