"""The answers of an OAuth 2.0 endpoint, as RFC 6749 writes them."""

from __future__ import annotations

import math

import msgspec

import stream_guard as sg


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
