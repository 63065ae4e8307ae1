"""The sink ``webhook``: each alert as a signed request, as https://www.standardwebhooks.com describes it."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final, Self

from stream_guard import Alert, SettingsError, Sink, SinkError
from stream_guard_sinks.http import HttpReceiver, link_of, plain_alert, to_json, written_time

TYPE: Final = "stream_guard.alert"
_PREFIX: Final = "whsec_"
_SHORTEST: Final = 24  # bytes, as the specification asks


class SignedWebhookSink(Sink):
    """Posts each alert with its id, the time of sending, and an HMAC of both and the body.

    The id of the request is the alert's id, so a receiver knows a repeat. Several secrets, with spaces between them,
    give several signatures: that is how a secret is exchanged without a gap.
    """

    def __init__(
        self, receiver: HttpReceiver, secrets: Sequence[bytes], settings: Any, clock: Callable[[], float] = time.time
    ) -> None:
        self._receiver = receiver
        self._secrets = secrets
        self._settings = settings
        self._clock = clock
        self._posted: set[str] = set()  # of a batch that failed half-way: not to be posted again with the rest

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for an address; nothing is sent yet."""
        del position  # a receiver cannot be asked what it has
        receiver = HttpReceiver("webhook", target, settings)
        try:
            secrets = read_secrets(settings.read_secret() if settings is not None else "")
        except SettingsError as error:
            raise SinkError(str(error), retryable=False) from None
        return cls(receiver, secrets, settings)

    def send(self, alerts: Sequence[Alert]) -> None:
        """Post each alert."""
        for alert in alerts:
            if alert.alert_id not in self._posted:
                self._post(alert)
                self._posted.add(alert.alert_id)
        self._posted.clear()

    def probe(self) -> str:
        """Ask whether somebody is there. Whether the signature is right, only an alert shows."""
        return self._receiver.probe()

    def close(self) -> None:
        """Close the connections."""
        self._receiver.close()

    def _post(self, alert: Alert) -> None:
        now = int(self._clock())
        data = plain_alert(alert)
        if link := link_of(alert, self._settings):
            data["link"] = link
        body = to_json({"type": TYPE, "timestamp": written_time(alert.time) or written_time(now), "data": data})
        name = _header_safe(alert.alert_id)
        headers = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(now),
            "webhook-signature": " ".join(sign(secret, name, now, body) for secret in self._secrets),
        }
        self._receiver.post(body, headers)


def sign(secret: bytes, name: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a request: HMAC-SHA256 of its id, its time and its body."""
    signed = f"{name}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, sha256)).decode()}"


def read_secrets(text: str) -> list[bytes]:
    """Return the secrets that are written in a text, or raise SinkError without showing them."""
    try:
        secrets = [base64.b64decode(part.removeprefix(_PREFIX), validate=True) for part in text.split()]
    except binascii.Error:
        secrets = []
    if not secrets or min(map(len, secrets)) < _SHORTEST:
        raise SinkError(
            f'the sink "webhook" signs what it sends and needs a secret: {_PREFIX} and {_SHORTEST} bytes or more in '
            "base64; set STREAM_GUARD_DELIVERY__SECRET, or put it into a file and name that as secret_file of the "
            "route, and give it to the receiver; "
            'make one with: echo "whsec_$(openssl rand -base64 32)"',
            retryable=False,
        )
    return secrets


def _header_safe(name: str) -> str:
    """Return an id as a header can hold it; ids of alerts about failures contain those of sessions."""
    if name.isascii() and name.isprintable() and " " not in name:
        return name
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
