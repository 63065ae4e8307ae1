"""Tokens from an OAuth 2.0 endpoint, for an id and a secret (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

import stream_guard as sg
from stream_guard_tokens.command import Refusal, read_answer

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_LONGEST_REASON: Final = 200
_OK: Final = 200
_ELSEWHERE: Final = range(300, 400)
_SERVER: Final = 500
_PASSING: Final = frozenset({408, 425, 429})  # refusals that another try may get past


class ClientCredentials(sg.TokenSource):
    """Posts the id and the secret, which it reads again each time: it may have been changed."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        parts = urlsplit(settings.oauth_url)
        # The rest of the address could hold a secret.
        self._where = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"

    @classmethod
    def open(cls, settings: Any) -> Self:
        """Return the source for ``kafka.oauth_url``, ``oauth_client_id`` and ``oauth_client_secret_file``."""
        for name in ("oauth_url", "oauth_client_id"):
            if not getattr(settings, name):
                raise sg.SettingsError(f"kafka.oauth_source client_credentials needs kafka.{name}")
        if not _is_safe(settings.oauth_url):
            raise sg.SettingsError(
                "kafka.oauth_url: write https://host/path, without a user; only an endpoint on this machine may have "
                "http"
            )
        if settings.oauth_ca_file is not None and not settings.oauth_ca_file.is_file():
            raise sg.SettingsError(f"kafka.oauth_ca_file: {settings.oauth_ca_file} is not a file that can be read")
        settings.read_client_secret()  # what is missing is said at the start
        return cls(settings)

    def fetch(self) -> sg.LoginToken:
        """Return the token of the endpoint."""
        secret, began = self._settings.read_client_secret(), time.time()
        posted = self._post(secret)
        if posted.status != _OK:
            raise self._refused(posted, secret)
        answer = read_answer(posted.body)
        if answer is None:
            raise self._error(
                "answered without an access_token of the type Bearer",
                "check that kafka.oauth_url is the endpoint for tokens",
            )
        return answer.token(began)

    def _post(self, secret: str) -> Posted:
        given = self._settings
        fields = {"grant_type": "client_credentials", "scope": given.oauth_scope, "audience": given.oauth_audience}
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        if given.oauth_client_login == "body":
            fields |= {"client_id": given.oauth_client_id, "client_secret": secret}
        else:
            pair = f"{quote_plus(given.oauth_client_id)}:{quote_plus(secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        body = urlencode({name: value for name, value in fields.items() if value}).encode()
        try:
            return post(given.oauth_url, body, headers, given.oauth_ca_file, given.oauth_timeout)
        except TimeoutError:
            late = f"did not answer within {given.oauth_timeout:g} s (kafka.oauth_timeout)"
            raise self._error(late, "check kafka.oauth_url and the network", retryable=True) from None
        except OSError as error:
            advice = "check kafka.oauth_url, kafka.oauth_ca_file and the network"
            raise self._error(f"cannot be reached: {error}", advice, retryable=not is_untrusted(error)) from None

    def _refused(self, posted: Posted, secret: str) -> sg.TokenError:
        answered = f"answered with status {posted.status}{_reason(posted.body, secret)}"
        if posted.status >= _SERVER or posted.status in _PASSING:
            return self._error(answered, "look at the endpoint", retryable=True)
        if posted.status in _ELSEWHERE:
            # The place that it leads to would be shown the secret.
            return self._error(f"{answered}, which is not followed", "set kafka.oauth_url to the endpoint itself")
        return self._error(
            answered,
            "check kafka.oauth_client_id, kafka.oauth_client_secret_file, kafka.oauth_client_login and "
            "kafka.oauth_scope",
        )

    def _error(self, what: str, advice: str, *, retryable: bool = False) -> sg.TokenError:
        return sg.TokenError(f"kafka.oauth_url: {self._where} {what}; {advice}", retryable=retryable)


def _is_safe(url: str) -> bool:
    """Whether an address is one, holds no user, and nobody on the way can read what is sent there."""
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        return False
    return is_address and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK))


def _reason(body: bytes, secret: str) -> str:
    """Return the error that the endpoint names, without our secret, should it repeat that."""
    try:
        refusal = msgspec.json.decode(body, type=Refusal)
    except msgspec.DecodeError:
        return ""
    text = ": ".join(filter(None, (refusal.error, refusal.error_description)))
    for spelling in filter(None, (secret, quote_plus(secret))):
        text = text.replace(spelling, "[masked]")
    text = "".join(char if char.isprintable() else " " for char in text)
    return f" ({text[:_LONGEST_REASON]})" if text else ""


# One POST by HTTPS: no redirect is followed, and the answer has a limit in time and size.


_LONGEST: Final = 1 << 20


class Posted(NamedTuple):
    """The answer to a POST."""

    status: int
    body: bytes


def post(url: str, body: bytes, headers: Mapping[str, str], authority: Path | None, timeout: float) -> Posted:
    """Return the answer, whatever its status; OSError says why there is none, TimeoutError that it took too long."""
    import ssl  # noqa: PLC0415  # every process imports the pack, few need this
    from http.client import HTTPException  # noqa: PLC0415  # as above
    from urllib.error import HTTPError, URLError  # noqa: PLC0415  # as above
    from urllib.request import HTTPSHandler, Request  # noqa: PLC0415  # as above

    end = time.monotonic() + timeout
    context = ssl.create_default_context(cafile=authority)
    request = Request(url, body, dict(headers))  # noqa: S310  # the source takes https, and http on this machine
    try:
        with _opener(HTTPSHandler(context=context)).open(request, timeout=timeout) as answer:
            return Posted(answer.status, _read(answer, end))
    except HTTPError as error:
        with error:
            return Posted(error.code, _read(error, end))
    except URLError as error:
        reason = error.reason
        raise (reason if isinstance(reason, OSError) else OSError(str(reason))) from None
    except HTTPException as error:
        raise OSError(f"what answers does not speak HTTP ({type(error).__name__})") from None


def is_untrusted(error: OSError) -> bool:
    """Whether the certificate is not one that is trusted: another try does not help."""
    from ssl import SSLCertVerificationError  # noqa: PLC0415  # as above

    return isinstance(error, SSLCertVerificationError)


def _opener(handler: Any) -> Any:
    from urllib.request import HTTPRedirectHandler, build_opener  # noqa: PLC0415  # as above

    class NoRedirects(HTTPRedirectHandler):
        """Makes a redirect an answer like others."""

        def redirect_request(self, *_: Any) -> None:
            return None

    return build_opener(handler, NoRedirects)


def _read(answer: Any, end: float) -> bytes:
    """Return the body; a sender that dribbles is given up at the end of the time."""
    read = bytearray()
    while len(read) < _LONGEST and (chunk := answer.read1(_LONGEST - len(read))):
        read += chunk
        if time.monotonic() > end:
            raise TimeoutError
    return bytes(read)
