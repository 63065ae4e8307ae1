"""The sink ``kafka``: alerts as CloudEvents on a topic, all of one session on one partition."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from stream_guard import Alert, Outgoing, Sink, TopicWriter, encode_alert
from stream_guard_sinks.http import written_time

SOURCE: Final = "stream-guard"
TYPE: Final = "stream_guard.alert"
# Structured mode: a copy of the record is a whole event, also without its headers.
_CONTENT_TYPE: Final = (("content-type", b"application/cloudevents+json; charset=UTF-8"),)


class KafkaSink(Sink):
    """Writes each alert as a CloudEvents 1.0 event in structured JSON. The key is the session's id.

    The event's id is the alert's id, which is the same in every mode and in every replay, so readers can drop repeats.
    ``send`` returns after all in-sync replicas have the alerts.
    """

    direct: ClassVar[bool] = True
    takes_all: ClassVar[bool] = True  # also behind a route

    def __init__(self, writer: TopicWriter) -> None:
        self._writer = writer

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for ``host:port/topic``, or for a topic on the servers of the settings."""
        del position  # a topic cannot be asked for the alerts after a position
        return cls(TopicWriter.open(target, settings))

    def send(self, alerts: Sequence[Alert]) -> None:
        """Write all alerts, and wait until all in-sync replicas have them."""
        self._writer.send(
            [
                Outgoing(alert.session_id.encode("utf-8", "replace"), encode_event(alert), _CONTENT_TYPE)
                for alert in alerts
            ]
        )

    def probe(self) -> str:
        """Say what is known since the sink is open."""
        return "the broker answers, and the topic is there"

    def close(self) -> None:
        """Close the connection to the cluster."""
        self._writer.close()


def encode_event(alert: Alert) -> bytes:
    """Return the alert as a CloudEvents event. The same alert gives the same bytes."""
    attributes = {
        "specversion": "1.0",
        "id": alert.alert_id,
        "source": SOURCE,
        "type": TYPE,
        "subject": alert.session_id,
        "datacontenttype": "application/json",
        "partitionkey": alert.session_id,
    }
    if time := written_time(alert.time):
        attributes["time"] = time
    head = json.dumps(attributes, ensure_ascii=False).encode("utf-8", "replace")
    return head[:-1] + b', "data": ' + encode_alert(alert) + b"}"
