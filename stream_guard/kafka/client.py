"""Connect to a cluster with the security of the settings, and explain why a connection fails."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError, StreamGuardError, TokenError
from stream_guard.kafka.security import describe_login, login_failure, security_options
from stream_guard.kafka.unpacking import GuardedRecords, UnpackBudget, bound_codecs
from stream_guard.settings import KafkaSettings

NAME: Final = "stream-guard"
ATTEMPT: Final = 3.0  # seconds; long enough for a few tries, short enough to report a wrong password soon

# The step at which a connection failed.
Stage: TypeAlias = Literal["reach", "tls", "login"]

_OUT_OF_TIME: Final = "Unable to bootstrap"  # the client's message for a timeout, which is not the reason
_PLAIN_WORDS: Final = {"ECONNREFUSED": "connection refused", "DNS Resolution failure": "nobody knows that name"}

_logger = logging.getLogger(__name__)


class BrokerError(StreamGuardError):
    """A cluster cannot be used; ``stage`` is the step that failed."""

    def __init__(self, message: str, stage: Stage) -> None:
        super().__init__(message)
        self.stage = stage


class ClientError(NamedTuple):
    """An error that the client logged. The exception itself would keep its sockets open."""

    kind: str
    text: str


class ClientLog(logging.Handler):
    """Collects why connections fail: the client logs the reasons, and raises only a timeout.

    As a handler it also keeps the client's log lines, several per attempt, off the terminal.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: deque[ClientError] = deque(maxlen=32)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the errors in a log line about connections."""
        if isinstance(record.args, tuple) and record.name.startswith(("kafka.net", "kafka.cluster")):
            errors = [argument for argument in record.args if isinstance(argument, Exception)]
            self.errors.extend(ClientError(type(error).__name__, _plain(error)) for error in errors)

    def last(self) -> str:
        """The latest reason in the client's own words; empty when there is none."""
        reasons = [error.text for error in self.errors if not error.text.startswith(_OUT_OF_TIME)]
        return reasons[-1] if reasons else ""


@dataclass(frozen=True, slots=True)
class Connection:
    """A client of the cluster, with the log of its connections."""

    client: Any
    servers: tuple[str, ...]
    log: ClientLog

    def close(self, **options: Any) -> None:
        """Close the client and stop listening to it."""
        try:
            self.client.close(**options)
        finally:
            logging.getLogger("kafka").removeHandler(self.log)


def choose_servers(servers: Sequence[str], kafka: KafkaSettings) -> tuple[str, ...]:
    """Return the servers of an address, or those of the settings; SettingsError when there are none."""
    chosen = tuple(servers) or kafka.bootstrap_servers
    if not chosen:
        raise SettingsError("no broker is named; write it into the address, or set kafka.bootstrap_servers")
    return chosen


def connect(kind: str, servers: Sequence[str], kafka: KafkaSettings, **options: Any) -> Connection:
    """Return a connected ``KafkaConsumer`` or ``KafkaProducer``; BrokerError says why there is none.

    It waits for a broker that does not answer yet, for as long as the settings' patience, but not for one that refuses.
    """
    make = getattr(_import_client(), kind)
    chosen = choose_servers(servers, kafka)
    options = security_options(kafka) | {"bootstrap_servers": list(chosen), "client_id": NAME} | options
    log = ClientLog()
    logging.getLogger("kafka").addHandler(log)
    try:
        return Connection(_keep_trying(make, chosen, kafka, options, log), chosen, log)
    except BaseException:
        logging.getLogger("kafka").removeHandler(log)
        raise


def open_consumer(servers: Sequence[str], kafka: KafkaSettings, *, refresh: float = 300.0) -> Connection:
    """Return a consumer without a group that commits nothing and never resets its position.

    ``refresh`` is the greatest age of its metadata in seconds.
    """
    return connect(
        "KafkaConsumer",
        servers,
        kafka,
        enable_auto_commit=False,
        # We keep the positions: a reset of one that is out of range would skip records silently.
        auto_offset_reset="none",
        isolation_level="read_committed",
        # A misspelt topic must not be created.
        allow_auto_create_topics=False,
        metadata_max_age_ms=int(refresh * 1000),
        receive_message_max_bytes=256 << 20,
    )


def guard_consumer(consumer: Any) -> UnpackBudget:
    """Have a consumer unpack batches within limits, and give a record for a batch that cannot be read.

    Returns what it may unpack until the budget is renewed.
    """
    from kafka.record import default_records, legacy_records  # noqa: PLC0415  # an extra; see _import_client

    for module in (default_records, legacy_records):
        bound_codecs(module)
    budget = UnpackBudget()
    fetcher = consumer._fetcher  # noqa: SLF001  # there is no other way to it
    theirs: Any = fetcher.PartitionRecords

    class GuardedPartition(theirs):  # type: ignore[misc]  # a class of the client, which has no types
        """The fetched records of a partition."""

        def _unpack_records(self, tp: Any, records: Any, *deserializers: Any) -> Any:
            return super()._unpack_records(tp, GuardedRecords(records, budget), *deserializers)

    fetcher.PartitionRecords = GuardedPartition
    return budget


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key by murmur2, as Java's and our clients choose it."""
    from kafka.partitioner.default import murmur2  # noqa: PLC0415  # an extra; see _import_client

    return int(murmur2(key) & 0x7FFFFFFF) % partitions


def _keep_trying(
    make: Callable[..., Any], servers: Sequence[str], kafka: KafkaSettings, options: dict[str, Any], log: ClientLog
) -> Any:
    end, waiting = time.monotonic() + kafka.patience, False
    while True:
        limit = max(0.5, min(ATTEMPT, end - time.monotonic()))
        client, failure = _attempt(make, limit, options)
        if client is not None:
            return client
        error = explain(servers, kafka, log.errors, failure)
        if error.stage != "reach" or time.monotonic() >= end:
            raise error
        if not waiting:
            _logger.warning("%s; trying for %.0f s", error, kafka.patience)
            waiting = True


def _attempt(make: Callable[..., Any], limit: float, options: dict[str, Any]) -> tuple[Any, Exception]:
    from kafka.errors import KafkaError  # noqa: PLC0415  # an extra; see _import_client
    from kafka.net.compat import KafkaNetClient  # noqa: PLC0415  # an extra; see _import_client

    made: list[Any] = []

    def remember(**config: Any) -> Any:
        made.append(KafkaNetClient(**config))
        return made[-1]

    try:
        client = make(
            bootstrap_timeout_ms=round(limit * 1000),
            # Not the default of 50 ms: an account may be locked after a few wrong passwords.
            reconnect_backoff_ms=500,
            reconnect_backoff_max_ms=2_000,
            kafka_client=remember,
            **options,
        )
    except KafkaError as error:
        # A client that could not connect leaves a thread and sockets open.
        for left in made:
            left.close()
        return None, error
    return client, Exception()


def _import_client() -> Any:
    try:
        import kafka  # noqa: PLC0415  # an extra: needed only for topics
    except ImportError as error:
        raise SettingsError(f"Kafka needs an extra: {install_line('kafka')} ({error})") from None
    return kafka


def explain(
    servers: Sequence[str], kafka: KafkaSettings, errors: Sequence[ClientError], failure: Exception
) -> BrokerError:
    """Return why the connection failed, and what to check."""
    where = ",".join(servers)
    if (missing := login_failure(kafka)) is not None:
        return BrokerError(f"{where}: there is no token to log in with: {missing}", _stage_of(missing))
    kinds = {error.kind for error in errors}
    texts = [error.text for error in errors]
    if kinds & {"SaslAuthenticationFailedError", "UnsupportedSaslMechanismError"}:
        return BrokerError(
            f"{where}: the broker refused the login of {describe_login(kafka)}; {_advise(kafka)}", "login"
        )
    if encryption := [text for text in texts if "SSL" in text or "certificate" in text]:
        return BrokerError(
            f"{where}: no encrypted connection: {encryption[-1]}; check kafka.ssl_ca_file, "
            f"kafka.ssl_certificate_file and whether this port speaks {kafka.security_protocol}",
            "tls",
        )
    if "socket disconnected" in texts:
        asked = kafka.security_protocol.startswith("SASL")
        meant = f"refused the login of {describe_login(kafka)}, or " if asked else ""
        return BrokerError(
            f"{where}: the broker closed the connection: it {meant}does not speak {kafka.security_protocol} on this "
            f"port; check kafka.security_protocol{' and kafka.sasl_*' if asked else ''}",
            "login" if asked else "tls",
        )
    if "IncompatibleBrokerVersion" in kinds:
        return BrokerError(f"{where}: a controller answers there, not a broker; name the port of a broker", "tls")
    reasons = [text for text in texts if text and not text.startswith(_OUT_OF_TIME)]
    reason = reasons[-1] if reasons else _plain(failure)
    return BrokerError(f"{where}: no broker answers: {reason}; check the address and the network", "reach")


def _stage_of(missing: TokenError) -> Stage:
    """Return the step that failed: one that may succeed yet is waited for like a broker that is away."""
    return "reach" if missing.retryable else "login"


def _advise(kafka: KafkaSettings) -> str:
    if kafka.sasl_mechanism == "OAUTHBEARER":
        return "check what the token is for (kafka.oauth_scope, kafka.oauth_extensions), and who may give tokens there"
    return "check kafka.sasl_username, kafka.sasl_password_file and kafka.sasl_mechanism"


def _plain(error: Exception) -> str:
    """Return the client's message without class names, and with words for codes."""
    text = " ".join(word for word in str(error).split() if not word.endswith("Error:"))
    return next((plain for code, plain in _PLAIN_WORDS.items() if code in text), text) or type(error).__name__
