"""The sink ``history``: findings of a stream become incidents that a person acknowledges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from stream_guard import Alert, Sink, SinkError, StoreError


class HistorySink(Sink):
    """Records alerts in the history that ``serve``, ``incidents`` and ``reviews`` show.

    An alert whose id is recorded changes nothing: after a crash, repeats are harmless.
    """

    direct: ClassVar[bool] = True
    takes_all: ClassVar[bool] = True  # also behind a route

    def __init__(self, follow_up: Any) -> None:
        self._follow_up = follow_up

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for a file or a ``postgresql://`` address; without one, for the history of the settings."""
        del position  # repeats are recognised by their ids
        from stream_guard import FollowUp  # noqa: PLC0415  # a database is opened only by who asks for this sink

        address = target or getattr(settings, "url", "")
        if not address:
            raise SinkError('the sink "history" needs a file: write history:FILE, or set history.url', retryable=False)
        key, limits = (settings.read_key(), settings) if hasattr(settings, "read_key") else (b"", None)
        try:
            return cls(FollowUp(address, key=key, limits=limits))
        except StoreError as error:
            raise SinkError(str(error), retryable=False) from error

    def send(self, alerts: Sequence[Alert]) -> None:
        """Record all alerts in one transaction."""
        if not alerts:
            return
        try:
            self._follow_up.record(alerts)
        except StoreError as error:
            raise SinkError(str(error), retryable=True) from error

    def probe(self) -> str:
        """Say what is known since the sink is open."""
        return "the history can be opened"

    def close(self) -> None:
        """Close the history."""
        self._follow_up.close()
