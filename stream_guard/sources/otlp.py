"""Exports of telemetry that come over HTTP: ``otlp://HOST:PORT``."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.settings import ReceiverSettings
from stream_guard.storage.spool import Spool

if TYPE_CHECKING:
    from stream_guard.sources.receiver import OtlpReceiver

SCHEME: Final = "otlp://"
_POLL: Final = 0.2
_PORT: Final = 4318  # of OTLP/HTTP
_ORIGIN: Final = "otlp"
_AT_ONCE: Final = 200  # exports between two commits


class OtlpSource:
    """The exports that a receiver took in, from its spool. It has no end.

    An export is forgotten when everything up to it was committed: a run commits when the source says that nothing is
    there right now.
    """

    def __init__(self, spool: Spool, receiver: OtlpReceiver, *, position: int, stop: Flag) -> None:
        self.url = receiver.url
        self.name, self.folder = spool.name, spool.folder
        self._spool, self._receiver, self._stop = spool, receiver, stop
        self.seek(position)

    def seek(self, position: int) -> None:
        """Read from this position of the spool on."""
        self.position = max(position, self._spool.first)

    def __iter__(self) -> Iterator[Record | None]:
        while True:
            for number, found in enumerate(self._spool.read(self.position)):
                self.position = found.next
                media = self._receiver.content_type(found.sort).encode()
                yield Record(found.body, _ORIGIN, found.position, headers=(("content-type", media),))
                if number >= _AT_ONCE:
                    break
            judged = self.position
            yield None
            self._spool.trim(judged)
            if not self._stop.is_set():
                self._spool.wait(self.position, _POLL)

    def positions(self) -> Mapping[str, int]:
        """Where the next export starts in the spool."""
        return {_ORIGIN: self.position}

    def close(self) -> None:
        """Stop listening, and close the spool."""
        self._receiver.close()
        self._spool.close()


def open_otlp(
    target: str, settings: ReceiverSettings, *, most: int, positions: Mapping[str, int], stop: Flag
) -> OtlpSource:
    """Return the source for ``otlp://HOST:PORT[?spool=FOLDER]``, which listens from now on."""
    host, port, folder = parse_target(target)
    token = settings.token.get_secret_value() if settings.token is not None else ""
    if not token and not _is_local(host):
        raise SourceError(
            f"{target}: whoever reaches {host} could write what agents did; set receiver.token, or listen on 127.0.0.1"
        )
    try:
        from stream_guard.sources.receiver import OtlpReceiver  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise SourceError(f"{target}: listening needs the extra otlp ({error.name} is missing)") from error
    spool = Spool(folder or settings.spool, max_bytes=settings.max_bytes)
    try:
        receiver = OtlpReceiver(host, port, spool, most=most, token=token)
    except OSError as error:
        spool.close()
        raise SourceError(f"{target}: cannot listen: {error.strerror or error}; choose another port") from error
    return OtlpSource(spool, receiver, position=positions.get(_ORIGIN, 0), stop=stop)


def parse_target(target: str) -> tuple[str, int, Path | None]:
    """Return the host, the port and the spool of a target, or raise SourceError."""
    try:
        parts = urlsplit(target)
        host, port = parts.hostname or "127.0.0.1", _PORT if parts.port is None else parts.port
    except ValueError as error:
        raise SourceError(f"{target}: {error}; write {SCHEME}HOST:PORT") from None
    options = parse_qs(parts.query)
    unknown = sorted(set(options) - {"spool"})
    if unknown or parts.path.strip("/"):
        raise SourceError(f"{target}: only ?spool=FOLDER may follow {SCHEME}HOST:PORT")
    return host, port, Path(options["spool"][-1]) if "spool" in options else None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
