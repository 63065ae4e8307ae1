"""The receiver over real HTTP: what is taken, what is refused and how, and what is there after a kill."""

from __future__ import annotations

import gzip
import http.client
import json
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.settings import ReceiverSettings
from stream_guard.sources.otlp import open_otlp, parse_target
from stream_guard.sources.receiver import JSON, PROTOBUF, OtlpReceiver
from stream_guard.storage.spool import Spool

EXPORT = json.dumps({"resourceSpans": []}).encode()
BINARY = ExportTraceServiceRequest(resource_spans=[ResourceSpans()]).SerializeToString()
LIMIT = 10_000


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    opened = Spool(tmp_path / "spool", max_bytes=100_000, segment=1000)
    yield opened
    opened.close()


@pytest.fixture
def receiver(spool: Spool) -> Iterator[OtlpReceiver]:
    opened = OtlpReceiver("127.0.0.1", 0, spool, most=LIMIT)
    yield opened
    opened.close()


def post(port: int, body: bytes | Any, path: str = "/v1/traces", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, body, {"content-type": JSON} | given)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_an_export_is_durable_when_it_is_answered(receiver: OtlpReceiver, spool: Spool) -> None:
    for _ in range(2):
        status, _headers, body = post(receiver.port, EXPORT)
        assert (status, body) == (200, b"{}")
    status, headers, body = post(receiver.port, BINARY, "/v1/logs", content_type=PROTOBUF)
    assert (status, headers["content-type"], body) == (200, PROTOBUF, b"")
    assert [(one.body, one.sort) for one in spool.read(0)] == [(EXPORT, 3), (EXPORT, 3), (BINARY, 2)]


def test_gzip_and_chunks_are_read(receiver: OtlpReceiver, spool: Spool) -> None:
    assert post(receiver.port, gzip.compress(EXPORT, mtime=0), content_encoding="gzip")[0] == 200
    packed = gzip.compress(EXPORT, mtime=0)
    assert post(receiver.port, iter([packed[:7], packed[7:]]), content_encoding="gzip")[0] == 200
    assert [one.body for one in spool.read(0)] == [EXPORT, EXPORT]


@pytest.mark.parametrize(
    ("body", "headers", "status", "reason"),
    [
        (b"{", {}, 400, "content-type"),
        (b"[]", {}, 400, "an export is an object"),
        (b"\x0a\xff", {"content_type": PROTOBUF}, 400, "not an export in protobuf"),
        (EXPORT, {"content_type": "text/plain"}, 415, "send application"),
        (EXPORT, {"content_encoding": "br"}, 415, "gzip"),
        (EXPORT, {"content_encoding": "gzip"}, 400, "not gzip"),
        (gzip.compress(EXPORT, mtime=0)[:-4], {"content_encoding": "gzip"}, 400, "ends too early"),
        (b" " * (LIMIT + 1), {}, 413, "more than"),
        (gzip.compress(b" " * 10_000_000, mtime=0), {"content_encoding": "gzip"}, 413, "unpacked"),
        (iter([b" " * LIMIT, b" " * LIMIT]), {}, 413, "more than"),
    ],
)
def test_what_can_never_be_taken_is_refused_for_good(
    receiver: OtlpReceiver, spool: Spool, body: Any, headers: dict[str, str], status: int, reason: str
) -> None:
    got, answer, text = post(receiver.port, body, **headers)
    assert got == status
    assert reason in text.decode()
    assert "retry-after" not in answer
    assert list(spool.read(0)) == []


def test_a_client_that_goes_on_sending_sees_why_it_was_refused(receiver: OtlpReceiver) -> None:
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as client:
        client.sendall(head.encode() + f"{LIMIT * 60:x}\r\n".encode() + b" " * (LIMIT + 1))
        select.select([client], [], [], 30)  # it has answered, and not read all
        for _ in range(50):
            client.sendall(b" " * 10_000)
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"more than" in answer


def test_other_paths_and_methods_are_refused(receiver: OtlpReceiver) -> None:
    assert post(receiver.port, EXPORT, "/v1/metrics")[0] == 404
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=30)
    connection.request("GET", "/v1/traces")
    assert connection.getresponse().status == 405
    connection.close()


def test_a_full_spool_is_429_and_a_slow_disk_503_with_retry_after(tmp_path: Path) -> None:
    goes_on = Event()

    def flush(_file: int) -> None:
        goes_on.wait()

    slow = Spool(tmp_path / "slow", patience=0.01, flush=flush)
    full = Spool(tmp_path / "full", max_bytes=10)
    for spool, status in ((full, 429), (slow, 503)):
        receiver = OtlpReceiver("127.0.0.1", 0, spool, most=LIMIT)
        got, headers, text = post(receiver.port, EXPORT)
        assert (got, int(headers["retry-after"]) > 0) == (status, True)
        assert b"try again later" in text
        receiver.close()
    goes_on.set()
    slow.close()
    full.close()


def test_exports_that_would_fill_the_memory_are_503(spool: Spool) -> None:
    receiver = OtlpReceiver("127.0.0.1", 0, spool, most=LIMIT, in_flight=LIMIT)
    packed = gzip.compress(EXPORT, mtime=0)
    got, headers, _ = post(receiver.port, packed, content_encoding="gzip")  # it may unpack to all there is
    assert (got, "retry-after" in headers) == (503, True)
    assert post(receiver.port, EXPORT)[0] == 200  # what was counted for the other is free again
    receiver.close()


def test_a_token_is_asked_for(spool: Spool) -> None:
    receiver = OtlpReceiver("127.0.0.1", 0, spool, most=LIMIT, token="s3cret")
    assert post(receiver.port, EXPORT)[0] == 401
    assert post(receiver.port, EXPORT, authorization="Bearer wrong")[0] == 401
    assert post(receiver.port, EXPORT, authorization="Bearer s3cret")[0] == 200
    receiver.close()


HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HEAD + b"X-A: ",
        HEAD + b"Content-Length: 9000\r\n\r\n{",
        HEAD + b"Content-Length: 9000\r\nContent-Encoding: gzip\r\n\r\n\x1f",
        HEAD + b"Authorization: Bearer wrong\r\nContent-Length: 9000\r\n\r\n{",
    ],
)
@pytest.mark.parametrize("token", ["", "s3cret"])
def test_whoever_sends_slowly_keeps_no_export_out(spool: Spool, sent: bytes, token: str) -> None:
    receiver = OtlpReceiver("127.0.0.1", 0, spool, most=LIMIT, token=token, in_flight=8 * LIMIT)
    with ExitStack() as stack:
        for _ in range(128):  # as many as there are places
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", receiver.port), 30))
            opened.sendall(sent)
        for _ in range(3):
            assert post(receiver.port, EXPORT, authorization=f"Bearer {token}")[0] == 200
    receiver.close()


def test_a_wrong_token_is_told_before_the_body_has_come(spool: Spool) -> None:
    receiver = OtlpReceiver("127.0.0.1", 0, spool, most=LIMIT, token="s3cret")
    with socket.create_connection(("127.0.0.1", receiver.port), 30) as opened:
        opened.sendall(HEAD + b"Authorization: Bearer wrong\r\nContent-Length: 9000\r\n\r\n")
        assert opened.recv(1000).startswith(b"HTTP/1.1 401")
    receiver.close()


@pytest.mark.parametrize("target", ["otlp://0.0.0.0:0", "otlp://h:x", "otlp://h/path", "otlp://h?spoon=1"])
def test_a_target_that_cannot_be_listened_on_is_refused(target: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        open_otlp(target, ReceiverSettings(spool=tmp_path), most=LIMIT, positions={}, stop=Event())


def test_a_target_has_the_port_of_otlp_unless_it_says_another() -> None:
    assert parse_target("otlp://localhost") == ("localhost", 4318, None)
    assert parse_target("otlp://[::1]:9?spool=there") == ("::1", 9, Path("there"))


def take(source: Any, count: int) -> list[Record]:
    """Return so many records, as a run takes them: it commits where the source says that nothing is there."""
    found: list[Record] = []
    for record in source:
        if record is not None:
            found.append(record)
        elif len(found) >= count:
            return found
    return found


def test_the_source_forgets_only_what_was_committed(tmp_path: Path) -> None:
    settings = ReceiverSettings(spool=tmp_path / "spool")
    source = open_otlp("otlp://127.0.0.1:0", settings, most=LIMIT, positions={}, stop=Event())
    port = int(source.url.rpartition(":")[2])
    for _ in range(3):
        post(port, EXPORT)
    found = take(source, 3)
    assert [record.value for record in found] == [EXPORT] * 3
    assert found[0].headers == (("content-type", JSON.encode()),)
    positions = source.positions()
    source.close()
    again = open_otlp("otlp://127.0.0.1:0", settings, most=LIMIT, positions={}, stop=Event())
    assert len(take(again, 3)) == 3  # a run that was killed before it committed
    again.close()
    later = open_otlp("otlp://127.0.0.1:0", settings, most=LIMIT, positions=positions, stop=Event())
    assert later.positions() == positions
    later.close()


_PROGRAM = """
import sys
from pathlib import Path
from threading import Event
from stream_guard.sources.receiver import OtlpReceiver
from stream_guard.storage.spool import Spool
print(OtlpReceiver("127.0.0.1", 0, Spool(Path(sys.argv[1])), most=10000).port, flush=True)
Event().wait()
"""


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    acknowledged: set[bytes] = set()
    enough = Event()

    def send(who: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for number in range(100_000):
            body = json.dumps({"resourceSpans": [], "who": who, "number": number}).encode()
            try:
                connection.request("POST", "/v1/traces", body, {"content-type": JSON})
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                break
            if answer.status == 200:
                acknowledged.add(body)
            if len(acknowledged) >= 200:
                enough.set()
        connection.close()

    senders = [Thread(target=send, args=(who,)) for who in range(4)]
    for sender in senders:
        sender.start()
    assert enough.wait(60)
    process.send_signal(signal.SIGKILL)
    for sender in senders:
        sender.join()
    process.wait()
    process.stdout.close()
    spool = Spool(tmp_path)
    assert acknowledged <= {one.body for one in spool.read(0)}
    spool.close()
