"""Receivers over HTTP: one request, and what its answer means for the alerts."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from stream_guard import SettingsError, SinkError, install_line

if TYPE_CHECKING:
    import httpx

_TIMEOUT: Final = 10.0  # seconds, where the settings do not say
_MOST_READ: Final = 64 * 1024  # bytes of an answer: a receiver is not trusted with our memory
# Not the alert's fault: the receiver is busy, gone, or set up wrongly. It may be mended while alerts wait.
_WORTH_REPEATING: Final = frozenset({401, 403, 404, 405, 407, 408, 409, 425, 429})

_KEPT_OUT: Final = frozenset({401, 403, 407})
_NO_SUCH_METHOD: Final = 501


class HttpReceiver:
    """Posts to one address. Errors name the host and never the address, which may hold a secret."""

    def __init__(self, sink: str, target: str, settings: Any, path: str = "") -> None:
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SinkError(f'the sink "{sink}" needs an address; write {sink}:https://host/path', retryable=False)
        self.host = parts.hostname
        self._sink = sink
        self._url = target.rstrip("/") + path if path else target
        self._client = _open_client(sink, settings)

    def post(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Post once, and return the answer; SinkError for every answer but success."""
        status, after, read = self._ask("POST", body, headers)
        if 200 <= status < 300:
            return read
        worth = status >= 500 or status in _WORTH_REPEATING
        raise SinkError(f"{self._sink} at {self.host} answered {status}", retryable=worth, retry_after=after)

    def probe(self) -> str:
        """Ask what the address takes, and return what came of it; SinkError when nobody is there, or keeps us out."""
        status, _, _ = self._ask("OPTIONS", b"", {})
        if status in _KEPT_OUT or (status >= 500 and status != _NO_SUCH_METHOD):
            raise SinkError(f"{self._sink} at {self.host} answered {status}", retryable=True)
        return f"{self.host} answers"  # one that takes nothing but POST, too: only an alert shows more

    def _ask(self, method: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, float, bytes]:
        """Return the status, how long to wait before another try, and of a success what was answered."""
        import httpx  # noqa: PLC0415  # an extra

        try:
            with self._client.stream(method, self._url, content=body, headers=dict(headers)) as answer:
                after = _retry_after(answer.headers.get("retry-after", ""))
                return answer.status_code, after, _read(answer) if answer.is_success else b""
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError) as error:
            # Why there is no connection names no address: nobody listens, no such name, a certificate.
            why = f": {error}" if isinstance(error, httpx.ConnectError) else ""
            raise SinkError(
                f"{self._sink} at {self.host} cannot be reached: {type(error).__name__}{why}", retryable=True
            ) from None

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def _open_client(sink: str, settings: Any) -> httpx.Client:
    try:
        import httpx  # noqa: PLC0415  # an extra
    except ModuleNotFoundError:
        raise SinkError(f'the sink "{sink}" needs an extra: {install_line("sinks")}', retryable=False) from None
    # At a lower level it logs addresses, and an address may hold a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    headers = {"user-agent": "stream-guard"}
    try:
        if token := settings.read_token() if settings is not None else "":
            headers["authorization"] = f"Bearer {token}"
        authority = None if settings is None else settings.ca_file
        verify = ssl.create_default_context(cafile=authority) if authority else True
    except (SettingsError, OSError) as error:
        raise SinkError(f'the sink "{sink}" cannot be set up: {error}', retryable=False) from None
    timeout = _TIMEOUT if settings is None else settings.timeout
    # No redirects: what was meant for one receiver is not for another.
    return httpx.Client(headers=headers, timeout=timeout, verify=verify, follow_redirects=False)


def _read(answer: httpx.Response) -> bytes:
    read = b""
    for chunk in answer.iter_bytes():
        read += chunk
        if len(read) > _MOST_READ:
            break
    return read[:_MOST_READ]


def _retry_after(text: str) -> float:
    """Return the seconds that a receiver asks for, in either form of RFC 9110; 0 where it does not."""
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
