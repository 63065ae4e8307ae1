"""The small server: what it answers, whom it answers, and that nothing a client does stops it."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry

from stream_guard.errors import SettingsError
from stream_guard.judge.counts import Counts
from stream_guard.observability.metrics import Metrics
from stream_guard.observability.status import StallDetector, StatusServer
from stream_guard.settings import StatusSettings
from tests.parts import find_promtool, require


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
    server = StatusServer(StatusSettings(max_silence=10), registry, clock=clock)
    yield server
    server.close()


def get(server: StatusServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
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


class World:
    """What keeps a process from being ready, or alive."""

    def __init__(self) -> None:
        self.unready: list[str] = []
        self.stuck = ""


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def watched(clock: Clock, world: World) -> Iterator[StatusServer]:
    server = StatusServer(
        StatusSettings(max_silence=10),
        CollectorRegistry(),
        clock=clock,
        unready=lambda: world.unready,
        stuck=lambda: world.stuck,
    )
    yield server
    server.close()


def test_readiness_gives_every_reason_against_it(watched: StatusServer, world: World) -> None:
    assert get(watched, "/readyz")[::2] == (200, "ok\n")
    world.unready = ["no partition is assigned", "the policy has no rules"]
    assert get(watched, "/readyz")[::2] == (503, "no partition is assigned\nthe policy has no rules\n")
    assert get(watched, "/livez")[0] == 200, "who is not ready need not be restarted"


def test_liveness_fails_when_the_work_is_stuck_or_silent(watched: StatusServer, world: World, clock: Clock) -> None:
    assert get(watched, "/livez")[::2] == (200, "ok\n")
    world.stuck = "nothing was processed"
    assert get(watched, "/livez")[::2] == (503, "nothing was processed\n")
    assert get(watched, "/healthz")[0] == 200
    world.stuck = ""
    clock.now += 11
    assert get(watched, "/livez")[0] == 503


def test_no_progress_while_the_lag_grows_is_a_stall_after_a_minute(clock: Clock) -> None:
    detector = StallDetector(clock)
    detector.feed(500, 10)
    for lag in (11, 15, 20):
        clock.now += 19
        detector.feed(500, lag)
        assert detector.reason() == ""
    clock.now += 3
    assert detector.reason() == "nothing was processed for 60 s, and 20 records wait, 10 before"
    detector.feed(501, 19)
    assert detector.reason() == ""


@pytest.mark.parametrize("lags", [(10, 10, 10), (0, 0, 0), (10, 12, 9)])
def test_a_lag_that_does_not_grow_is_no_stall(clock: Clock, lags: tuple[int, ...]) -> None:
    detector = StallDetector(clock)
    for lag in lags:
        detector.feed(500, lag)
        clock.now += 100
        if lag <= lags[0]:
            assert detector.reason() == ""


def test_progress_is_no_stall_however_much_waits(clock: Clock) -> None:
    detector = StallDetector(clock)
    for number in range(5):
        detector.feed(number, 1000 * number)
        clock.now += 59
        assert detector.reason() == ""


def test_metrics_are_clean_by_the_checker_of_prometheus(server: StatusServer, root: Path) -> None:
    promtool = find_promtool(root)
    require(promtool, "promtool is missing; `make setup-tests` says how to get it")
    body = get(server, "/metrics")[2]
    done = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_other_paths_and_methods_are_refused(server: StatusServer) -> None:
    assert get(server, "/")[::2] == (404, "there is /metrics, /healthz, /readyz and /livez\n")
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
    with socket.create_connection(address, timeout=60) as client, suppress(OSError):
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
    server = StatusServer(StatusSettings(), CollectorRegistry())
    port = urlsplit(server.url).port or 0
    server.close()
    assert set(threading.enumerate()) == before
    again = StatusServer(StatusSettings(port=port), CollectorRegistry())
    assert urlsplit(again.url).port == port
    again.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1", "guard.example.org"])
def test_an_address_that_others_reach_is_refused_unless_allowed(host: str) -> None:
    with pytest.raises(SettingsError, match=r"serve\.allow_remote"):
        StatusServer(StatusSettings(host=host), CollectorRegistry())


def test_an_address_that_others_reach_is_served_when_allowed() -> None:
    server = StatusServer(StatusSettings(host="0.0.0.0", allow_remote=True), CollectorRegistry())
    assert urlsplit(server.url).port
    server.close()


def test_a_port_that_is_taken_says_so(server: StatusServer) -> None:
    port = urlsplit(server.url).port or 0
    with pytest.raises(SettingsError, match="cannot listen there: Address already in use"):
        StatusServer(StatusSettings(port=port), CollectorRegistry())
