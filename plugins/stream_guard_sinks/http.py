"""Receivers over HTTP: one request, and what its answer means for the alerts."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from stream_guard import Alert, Json, SettingsError, SinkError, encode_alert, install_line, redact
from stream_guard_sinks.console import make_visible

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


# Alerts in words: a title, a text, a link, and a time that every receiver takes.


REVIEW: Final = "stream_guard_review"  # the kind of an alert that asks for a person's answer
DIGEST: Final = "stream_guard_digest"
_SUMMARIES: Final = ("stream_guard_summary", DIGEST)  # the kinds of alerts that are about others
_LONGEST: Final = 1000  # characters of evidence in a message for people


def title_of(alert: Alert) -> str:
    """Return a line that says how bad it is and what it is about."""
    return f"[{make_visible(alert.severity).upper()}] {make_visible(alert.rule_id)}"


def text_of(alert: Alert, link: str = "") -> str:
    """Return what a person needs to decide whether to look: what is wrong, where, why, and where to look."""
    lines = [make_visible(alert.detail)]
    if alert.reason and alert.reason != alert.detail:
        lines.append(make_visible(alert.reason))
    where = {"session": alert.session_id, "agent": alert.agent, "tenant": tenant_of(alert)}
    lines += [f"{name}: {make_visible(value)}" for name, value in where.items() if value]
    if alert.evidence:
        lines.append(f"evidence: {evidence_of(alert)}")
    if alert.suppressed:
        lines.append(f"suppressed: {alert.suppressed}")
    return "\n".join([*lines, *([link] if link else [])])


def evidence_of(alert: Alert) -> str:
    """Return the evidence on one line, short, with nothing in it that cannot be seen."""
    written = json.dumps(redact(dict(alert.evidence)), default=str)  # ASCII: what is odd is spelled out
    return written if len(written) <= _LONGEST else f"{written[: _LONGEST - 1]}…"


def tenant_of(alert: Alert) -> str:
    """Return whose alert it is; empty where no label says."""
    return alert.labels.get("tenant", "")


def link_of(alert: Alert, settings: Any) -> str:
    """Return where the page shows the alert, the review that it asks for, or what it sums up; empty without a page."""
    page = (getattr(settings, "page_url", "") or "").rstrip("/")
    if not page:
        return ""
    if alert.kind in _SUMMARIES:  # it is in no history: what it sums up is
        named = {"rule": "" if alert.kind == DIGEST else alert.rule_id, "tenant": tenant_of(alert)}
        query = urlencode({name: value for name, value in named.items() if value}, errors="replace")
        return f"{page}/?{query}" if query else f"{page}/"
    if alert.kind == REVIEW:
        return f"{page}/reviews/{_step(alert.alert_id.removeprefix('review-'))}"
    return f"{page}/alerts/{_step(alert.alert_id)}"


def _step(name: str) -> str:
    return quote(name, safe="", errors="replace")


def plain_alert(alert: Alert) -> dict[str, Json]:
    """Return the alert as JSON that every reader takes, also where a plugin's evidence is odd."""
    shown: dict[str, Json] = json.loads(encode_alert(alert), parse_constant=str)
    return shown


def written_time(seconds: float | None) -> str:
    """Return the time as RFC 3339 has it, in UTC; empty for none, or for one that has no date."""
    try:
        return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # in-process callers may say anything
        return ""


def epoch(seconds: float | None, now: float) -> float:
    """Return a time that has a date: the alert's own, or else now."""
    return seconds if seconds is not None and written_time(seconds) else now


def to_json(value: Mapping[str, Json] | list[Json]) -> bytes:
    """Return JSON in UTF-8; half a surrogate pair becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "replace")
