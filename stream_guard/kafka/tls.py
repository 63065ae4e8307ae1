"""Encrypted connections. Files of certificates that change are used from the next connection on."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Self

from stream_guard.errors import SettingsError
from stream_guard.settings import KafkaSettings, read_secret

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
