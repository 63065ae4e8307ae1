"""What clients are told about security: who we are, and how connections are encrypted."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Self

from stream_guard.errors import SettingsError, TokenError
from stream_guard.kafka.tokens import TokenKeeper, token_keeper
from stream_guard.settings import KafkaSettings, read_secret


def security_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the client's security options; SettingsError when a setting is missing."""
    options: dict[str, Any] = {"security_protocol": kafka.security_protocol}
    if kafka.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = kafka.sasl_mechanism
        if kafka.sasl_mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = _provide(token_keeper(kafka), read_extensions(kafka))
        else:
            if not kafka.sasl_username:
                raise SettingsError(f"kafka.security_protocol {kafka.security_protocol} needs kafka.sasl_username")
            options["sasl_plain_username"] = kafka.sasl_username
            options["sasl_plain_password"] = kafka.read_password()
    if kafka.security_protocol.endswith("SSL"):
        options["ssl_context"] = RenewedContext(kafka)
    return options


def read_extensions(kafka: KafkaSettings) -> dict[str, str]:
    """Return what is sent with a token, by name."""
    parts = (text.partition("=") for text in kafka.oauth_extensions)
    return {name: value for name, _, value in parts}


def login_failure(kafka: KafkaSettings) -> TokenError | None:
    """Return why there is no token to log in with, if that is so."""
    uses_tokens = kafka.security_protocol.startswith("SASL") and kafka.sasl_mechanism == "OAUTHBEARER"
    return token_keeper(kafka).failure if uses_tokens else None


def describe_login(kafka: KafkaSettings) -> str:
    """Return who logs in and how, for messages."""
    by_token = kafka.sasl_mechanism == "OAUTHBEARER"
    who = f"the bearer of a token from {kafka.oauth_source!r}" if by_token else repr(kafka.sasl_username)
    return f"{who} by {kafka.sasl_mechanism}"


def _provide(keeper: TokenKeeper, extensions: dict[str, str]) -> Any:
    from kafka.errors import KafkaConnectionError  # noqa: PLC0415  # an extra; see stream_guard.kafka.client
    from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415  # as above

    class ClientTokens(AbstractTokenProvider):  # type: ignore[misc]  # the client ships no types
        """Gives kafka-python the process's token."""

        def token(self) -> str:
            try:
                return keeper.token()
            except TokenError as error:
                # The client tries again after such an error; another kind would end its thread.
                raise KafkaConnectionError(str(error)) from None

        def extensions(self) -> dict[str, str]:
            return extensions

    return ClientTokens()


# Encrypted connections. Files of certificates that change are used from the next connection on.

_logger = logging.getLogger(__name__)


class RenewedContext(ssl.SSLContext):
    """A context that reads its files again when they have changed. Connections that exist are not touched.

    The clients keep one context and ask it for each connection. Files that cannot be used, such as a certificate whose
    key is not written yet, are reported once, and the last good ones stay in use.
    """

    def __new__(cls, kafka: KafkaSettings) -> Self:
        """Return a context for a client; without its files, it trusts nobody."""
        del kafka
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._lock = Lock()
        self._seen = _stamps(kafka)
        self._current = _read_context(kafka)

    def wrap_socket(self, *args: Any, **options: Any) -> Any:
        """Return a connection with the files as they are now."""
        return self._renew().wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> Any:
        """Return a connection with the files as they are now."""
        return self._renew().wrap_bio(*args, **options)

    def _renew(self) -> ssl.SSLContext:
        with self._lock:
            # Before the files are read: if they change meanwhile, the next connection reads them again.
            stamps = _stamps(self._kafka)
            if stamps != self._seen:
                self._seen = stamps
                try:
                    self._current = _read_context(self._kafka)
                except SettingsError as error:
                    _logger.warning("%s; those that were read before stay in use until they change again", error)
                else:
                    _logger.info("the files of kafka.ssl_* have changed, and are used from this connection on")
            return self._current


def _files(kafka: KafkaSettings) -> dict[str, Path]:
    files = {
        "kafka.ssl_ca_file": kafka.ssl_ca_file,
        "kafka.ssl_certificate_file": kafka.ssl_certificate_file,
        "kafka.ssl_key_file": kafka.ssl_key_file,
        "kafka.ssl_key_password_file": kafka.ssl_key_password_file,
    }
    return {setting: file for setting, file in files.items() if file is not None}


def _stamps(kafka: KafkaSettings) -> Sequence[tuple[int, ...] | None]:
    """Return what differs when a file, or what a link leads to, is another one or was written."""
    return [_stamp(file) for file in _files(kafka).values()]


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read_context(kafka: KafkaSettings) -> ssl.SSLContext:
    for setting, file in _files(kafka).items():
        if not file.is_file():
            raise SettingsError(f"{setting}: {file} is not a file that can be read")
    try:
        context = ssl.create_default_context(cafile=kafka.ssl_ca_file)
        if kafka.ssl_certificate_file is not None:
            secret = kafka.ssl_key_password_file
            # Always a password, even an empty one: otherwise OpenSSL asks for it on the terminal.
            password = "" if secret is None else read_secret(secret, "kafka.ssl_key_password_file")
            context.load_cert_chain(kafka.ssl_certificate_file, kafka.ssl_key_file, password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(f"the files of kafka.ssl_* cannot be used: {error}; they must be PEM") from None
    context.check_hostname = kafka.ssl_check_hostname
    return context
