"""The sink ``apprise``: alerts for chats, pagers and mail, through the services that apprise knows."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, Final, Self

from stream_guard import Alert, Sink, SinkError, install_line
from stream_guard_sinks.http import link_of, text_of, title_of

_TYPES: Final = {"critical": "failure", "error": "failure", "warning": "warning"}
# What wakes a whole channel when it stands in a message: agent text must not.
_MENTION: Final = re.compile(r"@(?=(?:here|everyone|channel|all)\b)|<(?=[!@#])", re.IGNORECASE)


class AppriseSink(Sink):
    """Sends each alert as a message of its own, as plain text."""

    def __init__(self, service: Any, settings: Any) -> None:
        self._service = service
        self._settings = settings
        self._told: set[str] = set()  # of a batch that failed half-way: not to be told again with the rest

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for an address of apprise's; nothing is sent yet."""
        del position  # a chat cannot be asked what it has
        try:
            import apprise  # noqa: PLC0415  # an extra
        except ModuleNotFoundError:
            raise SinkError(f'the sink "apprise" needs an extra: {install_line("apprise")}', retryable=False) from None
        # It logs addresses, which hold tokens, and what it sends.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        service = apprise.Apprise()
        if not target or not service.add(target):
            raise SinkError(
                'the sink "apprise" does not know this address; see https://github.com/caronc/apprise/wiki, '
                "and write apprise:scheme://...",
                retryable=False,
            )
        return cls(service, settings)

    def send(self, alerts: Sequence[Alert]) -> None:
        """Send a message for each alert."""
        for alert in alerts:
            if alert.alert_id in self._told:
                continue
            text = defuse(text_of(alert, link_of(alert, self._settings)))
            kind = _TYPES.get(alert.severity, "info")
            if not self._service.notify(body=text, title=defuse(title_of(alert)), notify_type=kind, body_format="text"):
                raise SinkError("the service behind apprise did not take the message", retryable=True)
            self._told.add(alert.alert_id)
        self._told.clear()


def defuse(text: str) -> str:
    """Return a text that calls nobody: a space stands between the sign and the name."""
    return _MENTION.sub(lambda found: f"{found[0]} ", text).encode("utf-8", "replace").decode()
