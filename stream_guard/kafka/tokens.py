"""Tokens for brokers that log in by OAUTHBEARER: kept while they are fresh, and renewed before they expire."""

from __future__ import annotations

import base64
import logging
import re
import time
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from stream_guard.errors import SettingsError, StreamGuardError, TokenError
from stream_guard.ports import LoginToken, TokenSource
from stream_guard.registry import build_registry
from stream_guard.settings import KafkaSettings

USED: Final = 0.8  # the share of a token's time after which it is renewed
UNKNOWN: Final = 60.0  # seconds that a token is kept of which nobody says when it expires
PAUSE: Final = 2.0  # seconds after a failure in which the source is left alone: accounts are locked after a few
LONGEST: Final = 64 << 10
# RFC 6750. Anything else could end the message to the broker early and go on with other fields.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")

_logger = logging.getLogger(__name__)


class KeptToken(NamedTuple):
    """A token, and the times by which it is renewed and no longer valid."""

    token: LoginToken
    renew: float
    expires: float


class TokenKeeper:
    """Gives all clients of a process the same token. Any thread may call it; one of them fetches."""

    def __init__(self, source: TokenSource, name: str, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._name = name
        self._clock = clock
        self._lock = Lock()
        self._kept: KeptToken | None = None
        self._failure: TokenError | None = None  # of the last fetch
        self._left_alone_until = 0.0

    @property
    def failure(self) -> TokenError | None:
        """Why there is no valid token; None while there is one, and before the first was asked for."""
        return None if self._valid() else self._failure

    def fresh(self) -> str | None:
        """Return the token if no new one is needed. It never waits."""
        kept = self._kept
        return kept.token.text if kept is not None and self._clock() < kept.renew else None

    def token(self) -> str:
        """Return a token that is valid, or raise TokenError."""
        with self._lock:
            if self.fresh() is None and self._clock() >= self._left_alone_until:
                self._renew()
            valid = self._valid()
            if valid is None:
                known = self._failure or TokenError(f"{self._name}: the token has just expired", retryable=True)
                raise TokenError(str(known), retryable=known.retryable)
            return valid

    def _valid(self) -> str | None:
        kept = self._kept
        return kept.token.text if kept is not None and self._clock() < kept.expires else None

    def _renew(self) -> None:
        began = self._clock()
        try:
            self._kept = self._check(self._source.fetch(), began)
        except Exception as error:  # noqa: BLE001  # a source that fails must not end the client's thread
            self._failure = self._explain(error)
            self._left_alone_until = self._clock() + PAUSE
            if self._valid():
                _logger.warning("%s; the token that was fetched before is still valid, and used", self._failure)
        else:
            self._failure = None

    def _explain(self, error: Exception) -> TokenError:
        if isinstance(error, TokenError):
            return error
        if isinstance(error, StreamGuardError):
            return TokenError(str(error), retryable=False)
        # Not its text: nobody knows what is in it.
        return TokenError(f"{self._name} failed with {type(error).__name__}; look at that plugin", retryable=True)

    def _check(self, token: LoginToken, began: float) -> KeptToken:
        if not _TOKEN.fullmatch(token.text) or len(token.text) > LONGEST:
            raise TokenError(
                f"{self._name}: what came is no token: empty, too long, or with characters that no token has; "
                "look at what the source gives",
                retryable=False,
            )
        told = [end for end in (token.expires, _expiry_inside(token.text)) if end is not None]
        expires = min(told, default=began + UNKNOWN)
        now = self._clock()
        if told and expires <= now:
            raise TokenError(
                f"{self._name}: the token expired {now - expires:.0f} s ago; have it renewed, or set the clock of this "
                "machine right",
                retryable=True,
            )
        renew = now if self._source.cheap else began + (expires - began) * USED
        # Of a token without a time the broker alone knows whether it is valid.
        return KeptToken(token, renew, expires if told else float("inf"))


def _expiry_inside(text: str) -> float | None:
    """Return when a JSON Web Token expires, as it says itself; None for other tokens. The broker checks it, not we."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, msgspec.DecodeError):
        return None
    expires = claims.get("exp") if isinstance(claims, dict) else None
    return float(expires) if isinstance(expires, int | float) and not isinstance(expires, bool) else None


@lru_cache(maxsize=8)
def token_keeper(kafka: KafkaSettings) -> TokenKeeper:
    """Return the keeper for the settings, one for all clients of the process; SettingsError where they do not fit."""
    name = kafka.oauth_source
    sources = build_registry(kafka.plugins).token_sources
    if name not in sources:
        raise SettingsError(
            (f'kafka.oauth_source: there is no source "{name}"' if name else "OAUTHBEARER needs kafka.oauth_source")
            + f"; there are {', '.join(sources) or 'none'}, and more in plugins"
        )
    return TokenKeeper(sources[name].open(kafka), f"kafka.oauth_source {name}")
