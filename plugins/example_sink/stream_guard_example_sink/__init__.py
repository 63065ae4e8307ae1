"""A sink that posts alerts to an address: open, send, hook. Copy this folder and write your own."""

from __future__ import annotations

from collections.abc import Sequence
from http.client import HTTPException
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import stream_guard as sg

_SECONDS = 10.0  # alerts wait while one request is under way


class WebhookSink(sg.Sink):
    """Posts each batch of alerts as one JSON array. The receiver knows repeats by their ``alert_id``."""

    def __init__(self, url: str) -> None:
        self._url = url

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for an address; nothing is sent yet."""
        del position, settings  # a receiver cannot be asked what it has, and there is nothing to set
        if not target.startswith(("http://", "https://")):
            raise sg.SinkError(f"write post:https://host/path; {target!r} is no address", retryable=False)
        return cls(target)

    def send(self, alerts: Sequence[sg.Alert]) -> None:
        """Post all alerts. An error of the server, or no answer at all, may be gone at the next try."""
        if not alerts:
            return
        body = b"[" + b",".join(map(sg.encode_alert, alerts)) + b"]"
        request = Request(self._url, body, {"content-type": "application/json"})  # noqa: S310  # checked in open
        try:
            urlopen(request, timeout=_SECONDS).close()  # noqa: S310  # checked in open
        except HTTPError as error:
            error.close()
            raise sg.SinkError(f"{self._url} answered with status {error.code}", retryable=error.code >= 500) from error
        except (OSError, HTTPException) as error:
            raise sg.SinkError(f"{self._url} cannot be reached: {error}", retryable=True) from error


@sg.hookimpl
def stream_guard_sinks() -> dict[str, type[sg.Sink]]:
    """Return the sink under the name that ``--alerts`` takes."""
    return {"post": WebhookSink}
