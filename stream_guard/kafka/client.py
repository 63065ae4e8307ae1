"""Connections to a cluster: opened with the settings' security, and with a reason when they cannot be."""

from __future__ import annotations

import logging
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from stream_guard.errors import SettingsError, StreamGuardError
from stream_guard.settings import KafkaSettings

NAME: Final = "stream-guard"
ATTEMPT: Final = 3.0  # seconds; long enough for a few tries, short enough to tell a wrong password soon

# Where on the way to a cluster it went wrong.
Stage: TypeAlias = Literal["reach", "tls", "login"]

_OUT_OF_TIME: Final = "Unable to bootstrap"  # which is how it ends, and not why
_PLAIN_WORDS: Final = {"ECONNREFUSED": "connection refused", "DNS Resolution failure": "nobody knows that name"}

_logger = logging.getLogger(__name__)


class BrokerError(StreamGuardError):
    """A cluster cannot be used; ``stage`` says how far we came."""

    def __init__(self, message: str, stage: Stage) -> None:
        super().__init__(message)
        self.stage = stage


class ClientError(NamedTuple):
    """An error of the client; not the exception itself, which would keep its sockets open."""

    kind: str
    text: str


class ClientLog(logging.Handler):
    """Hears why connections fail: the client logs that, and raises only that time has run out.

    It also keeps the client's log lines, several per attempt, off a terminal where nobody asked for logs.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: deque[ClientError] = deque(maxlen=32)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the errors that a line about connections tells of."""
        if isinstance(record.args, tuple) and record.name.startswith(("kafka.net", "kafka.cluster")):
            errors = [argument for argument in record.args if isinstance(argument, Exception)]
            self.errors.extend(ClientError(type(error).__name__, _plain(error)) for error in errors)

    def last(self) -> str:
        """The latest reason in the client's own words; empty when there is none."""
        reasons = [error.text for error in self.errors if not error.text.startswith(_OUT_OF_TIME)]
        return reasons[-1] if reasons else ""


@dataclass(frozen=True, slots=True)
class Connection:
    """A client of the cluster, and what it says about its connections."""

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

    A broker that is not there yet is waited for, as long as the settings' patience; one that refuses us is not.
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
    """Return a consumer that belongs to no group, commits nothing and moves nowhere by itself.

    ``refresh`` is how many seconds old its picture of the cluster may be.
    """
    return connect(
        "KafkaConsumer",
        servers,
        kafka,
        enable_auto_commit=False,
        # Positions are ours: where one of them is out of range, going elsewhere would skip records in silence.
        auto_offset_reset="none",
        isolation_level="read_committed",
        # A mistake in a topic's name must not make that topic.
        allow_auto_create_topics=False,
        metadata_max_age_ms=int(refresh * 1000),
        receive_message_max_bytes=256 << 20,
    )


def home_of(key: bytes, partitions: int) -> int:
    """Return the partition, of so many, that murmur2 gives a key: where Java's and our clients put its records."""
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
        # A client that could not connect leaves its thread and its sockets behind.
        for left in made:
            left.close()
        return None, error
    return client, Exception()


def _import_client() -> Any:
    try:
        import kafka  # noqa: PLC0415  # an extra: only who reads or writes topics needs it
    except ImportError as error:
        raise SettingsError(f'Kafka needs an extra: pip install "stream-guard[kafka]" ({error})') from None
    return kafka


def security_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Return what the client has to know to be let in; SettingsError when a part of that is missing."""
    options: dict[str, Any] = {"security_protocol": kafka.security_protocol}
    if kafka.security_protocol.startswith("SASL"):
        if not kafka.sasl_username:
            raise SettingsError(f"kafka.security_protocol {kafka.security_protocol} needs kafka.sasl_username")
        options["sasl_mechanism"] = kafka.sasl_mechanism
        options["sasl_plain_username"] = kafka.sasl_username
        options["sasl_plain_password"] = _password(kafka)
    if kafka.security_protocol.endswith("SSL"):
        options["ssl_context"] = _ssl_context(kafka)
    return options


def _password(kafka: KafkaSettings) -> str:
    if kafka.sasl_password_file is not None:
        return _read_secret(kafka.sasl_password_file, "kafka.sasl_password_file")
    if kafka.sasl_password is None:
        raise SettingsError(
            f"kafka.security_protocol {kafka.security_protocol} needs kafka.sasl_password_file or kafka.sasl_password"
        )
    return kafka.sasl_password.get_secret_value()


def _read_secret(file: Path, setting: str) -> str:
    try:
        # Editors end a file with a line end, and no password has one.
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{setting}: {file} cannot be read: {error}") from None


def _ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    files = {"kafka.ssl_ca_file": kafka.ssl_ca_file, "kafka.ssl_certificate_file": kafka.ssl_certificate_file}
    for setting, file in (files | {"kafka.ssl_key_file": kafka.ssl_key_file}).items():
        if file is not None and not file.is_file():
            raise SettingsError(f"{setting}: {file} is not a file that can be read")
    try:
        context = ssl.create_default_context(cafile=kafka.ssl_ca_file)
        if kafka.ssl_certificate_file is not None:
            secret = kafka.ssl_key_password_file
            # A password even where none is set: without one, OpenSSL asks for it on the terminal.
            password = "" if secret is None else _read_secret(secret, "kafka.ssl_key_password_file")
            context.load_cert_chain(kafka.ssl_certificate_file, kafka.ssl_key_file, password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(f"the files of kafka.ssl_* cannot be used: {error}; they must be PEM") from None
    context.check_hostname = kafka.ssl_check_hostname
    return context


def explain(
    servers: Sequence[str], kafka: KafkaSettings, errors: Sequence[ClientError], failure: Exception
) -> BrokerError:
    """Return what went wrong between us and the cluster, and what to look at."""
    where = ",".join(servers)
    kinds = {error.kind for error in errors}
    told = [error.text for error in errors]
    if kinds & {"SaslAuthenticationFailedError", "UnsupportedSaslMechanismError"}:
        return BrokerError(
            f"{where}: the broker refused the login of {kafka.sasl_username!r} by {kafka.sasl_mechanism}; "
            f"check kafka.sasl_username, kafka.sasl_password_file and kafka.sasl_mechanism",
            "login",
        )
    if encryption := [text for text in told if "SSL" in text or "certificate" in text]:
        return BrokerError(
            f"{where}: no encrypted connection: {encryption[-1]}; check kafka.ssl_ca_file, "
            f"kafka.ssl_certificate_file and whether this port speaks {kafka.security_protocol}",
            "tls",
        )
    if "socket disconnected" in told:
        asked = kafka.security_protocol.startswith("SASL")
        meant = f"refused the login of {kafka.sasl_username!r} by {kafka.sasl_mechanism}, or " if asked else ""
        return BrokerError(
            f"{where}: the broker closed the connection: it {meant}does not speak {kafka.security_protocol} on this "
            f"port; check kafka.security_protocol{' and kafka.sasl_*' if asked else ''}",
            "login" if asked else "tls",
        )
    if "IncompatibleBrokerVersion" in kinds:
        return BrokerError(f"{where}: a controller answers there, not a broker; name the port of a broker", "tls")
    reasons = [text for text in told if text and not text.startswith(_OUT_OF_TIME)]
    reason = reasons[-1] if reasons else _plain(failure)
    return BrokerError(f"{where}: no broker answers: {reason}; check the address and the network", "reach")


def _plain(error: Exception) -> str:
    """The client's message without the names of its classes, and in words where it has only a code."""
    text = " ".join(word for word in str(error).split() if not word.endswith("Error:"))
    return next((plain for code, plain in _PLAIN_WORDS.items() if code in text), text) or type(error).__name__
