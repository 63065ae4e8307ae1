from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from stream_guard_example_sink import WebhookSink

from stream_guard import SinkError
from stream_guard.testing import alert, check_sink_laws


class Receiver(HTTPServer):
    """Keeps what is posted, and answers with the status it is given."""

    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/alerts"
        self.bodies: list[bytes] = []


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:  # the name that http.server calls
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_batch_is_posted_as_one_array(receiver: Receiver) -> None:
    WebhookSink.open(receiver.url).send([alert(1), alert(2)])
    [body] = receiver.bodies
    assert [one["alert_id"] for one in json.loads(body)] == [alert(1).alert_id, alert(2).alert_id]


@pytest.mark.parametrize(("status", "retryable"), [(503, True), (404, False)])
def test_only_an_error_of_the_server_is_worth_another_try(receiver: Receiver, status: int, *, retryable: bool) -> None:
    receiver.status = status
    with pytest.raises(SinkError, match=str(status)) as refused:
        WebhookSink.open(receiver.url).send([alert()])
    assert refused.value.retryable is retryable


def test_a_receiver_that_is_away_is_worth_another_try() -> None:
    with pytest.raises(SinkError, match="cannot be reached") as refused:
        WebhookSink.open("http://127.0.0.1:1/").send([alert()])
    assert refused.value.retryable


def test_sink_keeps_the_laws(receiver: Receiver) -> None:
    check_sink_laws(WebhookSink, receiver.url, refused="alerts.example.com")
