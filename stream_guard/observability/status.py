"""The status server: /metrics for Prometheus; /healthz, /readyz and /livez for orchestrators."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_guard.errors import SettingsError
from stream_guard.judge.counts import Counts
from stream_guard.judge.spec import Policy
from stream_guard.observability.metrics import Metrics
from stream_guard.settings import StatusSettings

_CLIENT_TIMEOUT: Final = 5.0  # seconds for a client to send its request
_POLL: Final = 0.05  # seconds that closing may have to wait
_STALLED: Final = 60.0  # seconds without progress while the lag grows

_logger = logging.getLogger(__name__)


class StallDetector:
    """Distinguishes a worker that is stuck from one that has nothing to do.

    Only a growing lag is a sign: the last offsets of a topic may be transaction markers, which are never delivered.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, patience: float = _STALLED) -> None:
        self._clock = clock
        self._patience = patience
        self._processed = -1
        self._since = clock()  # when a record was processed last, or the lag went down
        self._lag_then = self._lag = 0

    def feed(self, processed: int, lag: int) -> None:
        """Record the total of processed records, and the lag."""
        if processed != self._processed or lag < self._lag_then:
            self._processed, self._since, self._lag_then = processed, self._clock(), lag
        self._lag = lag

    def reason(self) -> str:
        """Return why the process should be restarted; empty when it should not."""
        silent = self._clock() - self._since
        if silent < self._patience or self._lag <= self._lag_then:
            return ""
        return f"nothing was processed for {silent:.0f} s, and {self._lag} records wait, {self._lag_then} before"


class StatusServer:
    """Answers requests in a thread of its own until it is closed.

    The working loop calls ``beat`` on every pass. Without a beat for ``serve.max_silence`` seconds, /healthz answers
    503. /readyz answers 503 while ``unready`` returns reasons, and /livez while ``stuck`` returns one. No request
    changes anything.
    """

    def __init__(
        self,
        serve: StatusSettings,
        registry: CollectorRegistry,
        *,
        clock: Callable[[], float] = time.monotonic,
        unready: Callable[[], Sequence[str]] = tuple,
        stuck: Callable[[], str] = str,
    ) -> None:
        _refuse_remote(serve)
        self._clock = clock
        self._unready = unready
        self._stuck = stuck
        self._max_silence = serve.max_silence
        self._last_beat = clock()
        try:
            self._server = _Server(serve.host, serve.port, registry, self._troubles)
        except OSError as error:
            raise SettingsError(
                f"serve.host {serve.host!r}, serve.port {serve.port}: cannot listen there: {error.strerror}; "
                "choose another port, or 0 for any free one"
            ) from error
        self._thread = Thread(target=self._server.serve_forever, args=(_POLL,), name="stream_guard-status", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def beat(self) -> None:
        """Record that the working loop is alive."""
        self._last_beat = self._clock()

    def close(self) -> None:
        """Stop listening and return when the thread has ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _troubles(self, path: str) -> Sequence[str] | None:
        """Return what is wrong for a health path, empty when it is healthy; None for any other path."""
        if path == "/readyz":
            return self._unready()
        silent = self._clock() - self._last_beat > self._max_silence
        beat = ["the work has not come round for too long"] if silent else []
        if path == "/healthz":
            return beat
        if path == "/livez":
            stuck = self._stuck()
            return [*beat, stuck] if stuck else beat
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that hangs must not hold up the end of the process

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, troubles: Callable[[str], Sequence[str] | None]
    ) -> None:
        self.registry = registry
        self.troubles = troubles
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that a request failed; it needs no action."""
        del request
        _logger.debug("request from %s failed: %r", client_address, sys.exception())


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "stream_guard"
    sys_version = ""
    timeout = _CLIENT_TIMEOUT

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._reply(HTTPStatus.OK, encode(self.server.registry), content_type)
            return
        troubles = self.server.troubles(path)
        if troubles is None:
            self._reply(HTTPStatus.NOT_FOUND, b"there is /metrics, /healthz, /readyz and /livez\n")
            return
        text = "".join(f"{line}\n" for line in troubles or ("ok",))
        self._reply(HTTPStatus.SERVICE_UNAVAILABLE if troubles else HTTPStatus.OK, text.encode("utf-8", "replace"))

    def _reply(self, status: HTTPStatus, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name http.server gives)
        """Log requests only for debugging."""
        _logger.debug(format, *args)


def _refuse_remote(serve: StatusSettings) -> None:
    """Raise SettingsError when other machines could connect and the settings do not allow it."""
    if serve.allow_remote or serve.host == "localhost":
        return
    try:
        if ipaddress.ip_address(serve.host).is_loopback:
            return
    except ValueError:
        pass  # a name may resolve to another machine, so it counts as remote
    raise SettingsError(
        f"serve.host is {serve.host!r}, which other machines may reach, and the server asks nobody who they are; "
        "use 127.0.0.1, or set serve.allow_remote"
    )


# The metrics and the health of an embedded run.


class RunStatus:
    """Serves the metrics and the health of one run over HTTP."""

    def __init__(self, counts: Counts, policy: Policy, settings: StatusSettings) -> None:
        registry = CollectorRegistry()
        self._counts = counts
        self._metrics = Metrics(counts, registry)
        self._stall = StallDetector()
        self.lag: Callable[[], int] = int  # records that wait in the topics; 0 for other sources
        self._started = False
        self._rules = len(policy.rules)
        self._server = StatusServer(settings, registry, unready=self._unready, stuck=self._stall.reason)
        self.url, self.close = self._server.url, self._server.close
        self.use_policy(policy)

    def use_policy(self, policy: Policy) -> None:
        """Count by the rules of another policy from here on."""
        self._rules = len(policy.rules)
        self._metrics.use_rules(policy.rules)

    def batch(self, records: int, seconds: float) -> None:
        """Record that a batch is done; an empty batch means that the source is idle."""
        self._started = True
        self._server.beat()
        self._counts.lag = self.lag()
        self._stall.feed(self._counts.records, self._counts.lag)
        if records:
            self._metrics.batch_seconds.observe(seconds)

    def _unready(self) -> list[str]:
        reasons = {
            "the first look at the source is not over": not self._started,
            "the policy has no rules": not self._rules,
        }
        return [reason for reason, holds in reasons.items() if holds]
