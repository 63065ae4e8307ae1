"""Connections that are not finished, not needed or too many, on real sockets."""

from __future__ import annotations

import select
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.test_serve import Running, serving

LIMITS = {
    "STREAM_GUARD_API__HEADER_TIMEOUT": "0.5",
    "STREAM_GUARD_API__BODY_TIMEOUT": "0.5",
    "STREAM_GUARD_API__MAX_CONNECTIONS": "20",
}
HEAD = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UNFINISHED = {
    "nothing": b"",
    "half a head": HEAD + b"X-A: ",
    "half a body": HEAD + b'Content-Length: 1000\r\n\r\n{"session_id',
    "a chunk without end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "a second head after a request": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea",
}


def connect(server: Running) -> socket.socket:
    parts = urlsplit(server.url)
    opened = socket.create_connection((parts.hostname or "", parts.port or 0), 30)
    opened.settimeout(30)
    return opened


def ask(opened: socket.socket) -> bytes:
    """Ask whether the server is well, and return the whole answer."""
    opened.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    said = b""
    while not said.endswith(b"ok\n"):
        piece = opened.recv(65536)
        assert piece, said
        said += piece
    return said


def until_closed(opened: socket.socket, drip: bytes = b"") -> bytes:
    """Return what the server says until it closes the connection; the test hangs, and fails, if it never does."""
    said = b""
    opened.settimeout(0.1 if drip else 30)
    while True:
        try:
            piece = opened.recv(65536)
        except TimeoutError:
            opened.sendall(drip)
            continue
        except ConnectionError:
            return said
        if not piece:
            return said
        said += piece


def send_for_ever(opened: socket.socket) -> None:
    while True:
        opened.send(b" ")
        select.select([], [], [], 0.05)


def test_whoever_does_not_finish_keeps_no_place(tmp_path: Path) -> None:
    with serving(tmp_path, **LIMITS) as server, ExitStack() as stack:
        waiting = {name: stack.enter_context(connect(server)) for name in UNFINISHED}
        for name, opened in waiting.items():
            opened.sendall(UNFINISHED[name])
        for name, opened in waiting.items():
            said = until_closed(opened)
            assert (b" 408 " in said) is (name in ("half a body", "a chunk without end")), (name, said)
        dripping = stack.enter_context(connect(server))
        dripping.sendall(HEAD + b"X-A: ")
        until_closed(dripping, drip=b"a")  # a byte now and then makes the time no longer
        assert server.post("/v1/check", {"session_id": "s", "tool": "read"}).json()["action"] == "allow"


def test_whoever_does_not_take_an_answer_is_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path, **LIMITS) as server, socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        parts = urlsplit(server.url)
        opened.connect((parts.hostname or "", parts.port or 0))
        opened.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
        with pytest.raises(ConnectionError):
            send_for_ever(opened)  # the test hangs, and fails, if the server never lets go
        assert server.post("/v1/check", {"session_id": "s", "tool": "read"}).json()["action"] == "allow"


@pytest.mark.parametrize("sent", [UNFINISHED["nothing"], UNFINISHED["half a head"], UNFINISHED["half a body"]])
def test_connections_that_wait_for_their_callers_make_room_for_others(tmp_path: Path, sent: bytes) -> None:
    patient = {name: "60" for name in LIMITS if name.endswith("TIMEOUT")}
    with serving(tmp_path, **(LIMITS | patient)) as server, ExitStack() as stack:
        held = [stack.enter_context(connect(server)) for _ in range(20)]
        for opened in held:
            opened.sendall(sent)
        for _ in range(5):
            assert server.post("/v1/check", {"session_id": "s", "tool": "read"}).json()["action"] == "allow"
        assert until_closed(held[0]) == b""  # the one that had waited longest
        assert select.select([held[-1]], [], [], 0)[0] == []
        stack.close()
        assert server.post("/v1/check", {"session_id": "s", "tool": "read"}).status_code == 200


def test_a_connection_between_two_requests_goes_after_those_that_never_asked(tmp_path: Path) -> None:
    with serving(tmp_path, **{**LIMITS, "STREAM_GUARD_API__HEADER_TIMEOUT": "60"}) as server, ExitStack() as stack:
        held = [stack.enter_context(connect(server)) for _ in range(20)]
        assert ask(held[0]).startswith(b"HTTP/1.1 200")
        one_more = stack.enter_context(connect(server))
        assert until_closed(held[1]) == b""
        assert ask(one_more).startswith(b"HTTP/1.1 200")
        assert ask(held[0]).startswith(b"HTTP/1.1 200")


def test_whoever_hangs_up_does_not_fill_the_log(tmp_path: Path) -> None:
    patient = {name: "60" for name in LIMITS if name.endswith("TIMEOUT")}
    with serving(tmp_path, **(LIMITS | patient)) as server:
        for _ in range(100):  # as errors with where they came from, these would be more than the pipe holds
            with connect(server) as opened:
                opened.sendall(UNFINISHED["half a body"])
        assert server.post("/v1/check", {"session_id": "s", "tool": "read"}).json()["action"] == "allow"
