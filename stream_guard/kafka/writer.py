"""Write to a topic: ``send`` returns when all in-sync replicas have the records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stream_guard.errors import SettingsError, SinkError
from stream_guard.kafka.address import Address, parse_address
from stream_guard.observability.steady_clock import steady_time

if TYPE_CHECKING:
    from stream_guard.kafka.client import Connection
    from stream_guard.settings import KafkaSettings

FIND_MS: Final = 10_000  # how long to wait for the topic's metadata
DELIVERY: Final = 30.0  # seconds that one batch may take, with the client's own retries
# The topic decides whether a record is too large, not the client.
MAX_REQUEST: Final = 64 << 20
# The records of one call are one batch, mostly. Each batch wakes the client's thread. One that the topic refuses as too
# large is split by the client.
BATCH: Final = 256 << 10


class Outgoing(NamedTuple):
    """One record on its way to a topic."""

    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


class TopicWriter:
    """Appends records to one topic: all of a batch, or SinkError.

    The producer is idempotent and waits for all in-sync replicas: its own retries write nothing twice. The partition is
    murmur2 of the key, as in Java's and Python's clients.
    """

    def __init__(self, address: Address, kafka: KafkaSettings) -> None:
        self._address = address
        self._kafka = kafka
        self._topic = address.topics[0]
        self._was_found = False
        self._connection: Connection | None = self._connect()

    @classmethod
    def open(cls, target: str, kafka: KafkaSettings | None = None) -> TopicWriter:
        """Return the writer for ``[kafka://]host:port/topic``, or for a topic on the settings' servers.

        Without settings those of the environment are used. SinkError when there is no such topic to write to.
        """
        from stream_guard.settings import load_settings  # noqa: PLC0415  # the front door stays light

        try:
            address = parse_address(target)
        except ValueError as error:
            raise SinkError(str(error), retryable=False) from None
        if len(address.topics) > 1 or address.options:
            raise SinkError(f"{target}: one topic can be written to, without options: host:port/topic", retryable=False)
        return cls(address, kafka or load_settings().kafka)

    def send(self, records: Sequence[Outgoing]) -> None:
        """Write all of them and wait for the acknowledgements; SinkError says whether another try may help."""
        from kafka.errors import KafkaError  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

        if not records:
            return
        if self._connection is None:
            self._connection = self._connect()
        self._connection.log.errors.clear()
        producer, end = self._connection.client, time.monotonic() + DELIVERY + 5.0
        try:
            now = round(steady_time() * 1000)
            sent = [
                producer.send(self._topic, key=one.key, value=one.value, headers=list(one.headers), timestamp_ms=now)
                for one in records
            ]
            producer.flush(max(0.1, end - time.monotonic()))  # now: no more records come that lingering could batch
            for future in sent:
                future.get(max(0.1, end - time.monotonic()))
        except KafkaError as error:
            # The state of an idempotent producer after a failure is uncertain: make a new one.
            explained = self._explain(error)
            self._drop()
            raise explained from error

    def close(self) -> None:
        """Close the producer; everything was acknowledged before."""
        self._drop()

    def _connect(self) -> Connection:
        from stream_guard.kafka.client import BrokerError, connect  # noqa: PLC0415  # the front door stays light

        try:
            connection = connect(
                "KafkaProducer",
                self._address.servers,
                self._kafka,
                acks="all",
                enable_idempotence=True,
                linger_ms=5,
                batch_size=BATCH,
                max_block_ms=FIND_MS,
                delivery_timeout_ms=round(DELIVERY * 1000),
                request_timeout_ms=round(DELIVERY * 1000 / 3),
                max_request_size=MAX_REQUEST,
            )
        except BrokerError as error:
            raise SinkError(str(error), retryable=error.stage == "reach") from error
        except SettingsError as error:
            raise SinkError(str(error), retryable=False) from error
        self._find_topic(connection)
        return connection

    def _find_topic(self, connection: Connection) -> None:
        from kafka.errors import KafkaError, TopicAuthorizationFailedError  # noqa: PLC0415  # an extra, see client

        try:
            connection.client.partitions_for(self._topic)
        except KafkaError as error:
            connection.close(timeout=0)
            forbidden = isinstance(error, TopicAuthorizationFailedError)
            what = "we may not write to" if forbidden else "there is no answer about"
            raise SinkError(
                f"{self._address}: {what} the topic {self._topic!r}; create it, or ask for the right to write to it",
                # Brokers that are slow, or have no leader for it yet, do not make wrong what was right before.
                retryable=self._was_found and not forbidden,
            ) from error
        self._was_found = True

    def _drop(self) -> None:
        from kafka.errors import KafkaError  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        try:
            connection.close(timeout=1)
        except KafkaError:
            # A producer that lost its broker before it got an id neither sends records nor lets them expire, and does
            # not close over them. Its thread would try for ever.
            connection.client._sender.force_close()  # noqa: SLF001  # nothing public ends it
            with suppress(KafkaError):
                connection.client.close(timeout=1)

    def _explain(self, error: Any) -> SinkError:
        logged = self._connection.log.last() if self._connection is not None and error.retriable else ""
        reason, again = logged or str(error), bool(error.retriable)
        advice = "they are sent again" if again else "look at the topic's limits and rights"
        if not again and "timestamp" in reason.lower():
            # The client stamps records with the time of day here. No record is to blame for that.
            again, advice = True, "compare this machine's clock with the brokers'; they are sent again"
        return SinkError(f"{self._address}: records were not acknowledged: {reason}; {advice}", retryable=again)
