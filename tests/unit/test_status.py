"""The small server: what it answers, whom it answers, and that nothing a client does stops it."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry

from stream_guard.counts import Counts
from stream_guard.errors import SettingsError
from stream_guard.metrics import Metrics
from stream_guard.settings import Serve
from stream_guard.status import StatusServer


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> Iterator[StatusServer]:
    registry = CollectorRegistry()
    Metrics(Counts(), registry)
    server = StatusServer(Serve(max_silence=10), registry, clock=clock)
    yield server
    server.close()


def get(server: StatusServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers.get("Content-Type", ""), body


def test_metrics_are_served_in_the_format_of_prometheus(server: StatusServer) -> None:
    status, content_type, body = get(server, "/metrics?name[]=x")
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert "stream_guard_records_total 0.0" in body


def test_health_follows_the_beat(server: StatusServer, clock: Clock) -> None:
    assert get(server, "/healthz")[::2] == (200, "ok\n")
    clock.now += 10.5
    assert get(server, "/healthz")[0] == 503
    server.beat()
    assert get(server, "/healthz")[0] == 200


def test_other_paths_and_methods_are_refused(server: StatusServer) -> None:
    assert get(server, "/")[::2] == (404, "there is /metrics and /healthz\n")
    assert get(server, "/metrics/../healthz")[0] == 404
    assert get(server, "/metrics", "POST")[0] == 501
    assert get(server, "/healthz", "HEAD")[::2] == (200, "")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\xff\xfe",
        b"GET /metrics HTTP/1.1\r\nAccept: \xff\xfe;q=z\r\n\r\n",
    ],
)
def test_a_bad_request_does_not_keep_the_next_one_from_its_answer(
    server: StatusServer, request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    where = urlsplit(server.url)
    address = (where.hostname or "", where.port or 0)
    # The server may hang up as soon as it has seen enough.
    with socket.create_connection(address, timeout=10) as client, suppress(OSError):
        client.sendall(request_bytes)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    assert get(server, "/healthz")[0] == 200
    assert capfd.readouterr().err == "", "a client cannot write to our terminal"


def test_a_client_that_says_nothing_does_not_keep_others_waiting(server: StatusServer) -> None:
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname or "", where.port or 0)):
        assert get(server, "/healthz")[0] == 200


def test_a_closed_server_has_let_go_of_its_port_and_its_thread() -> None:
    before = set(threading.enumerate())
    server = StatusServer(Serve(), CollectorRegistry())
    port = urlsplit(server.url).port or 0
    server.close()
    assert set(threading.enumerate()) == before
    again = StatusServer(Serve(port=port), CollectorRegistry())
    assert urlsplit(again.url).port == port
    again.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1", "guard.example.org"])
def test_an_address_that_others_reach_is_refused_unless_allowed(host: str) -> None:
    with pytest.raises(SettingsError, match=r"serve\.allow_remote"):
        StatusServer(Serve(host=host), CollectorRegistry())


def test_an_address_that_others_reach_is_served_when_allowed() -> None:
    server = StatusServer(Serve(host="0.0.0.0", allow_remote=True), CollectorRegistry())
    assert urlsplit(server.url).port
    server.close()


def test_a_port_that_is_taken_says_so(server: StatusServer) -> None:
    port = urlsplit(server.url).port or 0
    with pytest.raises(SettingsError, match="cannot listen there: Address already in use"):
        StatusServer(Serve(port=port), CollectorRegistry())
