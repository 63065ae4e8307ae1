"""Decisions as OpenTelemetry events, sent over HTTP to a server that stands for a collector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from stream_guard.errors import SettingsError
from stream_guard.guard.gate import Ruling
from stream_guard.judge.model import Action, Alert, ToolCall
from stream_guard.serve.decision_events import DecisionEvents

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALL = ToolCall(
    session_id="s1", tool="drop", call_id="c1", agent="bot", labels={"traceparent": f"00-{TRACE}-{SPAN}-01"}
)


def ruling(action: Action) -> Ruling:
    alert = Alert(
        alert_id="a", rule_id="no-drop", kind="no_call", severity="error", session_id="s1", event_id="e", index=0,
        time=0.0, detail="", policy_version="v",
    )  # fmt: skip
    return Ruling(action=action, reason="drop is watched", policy_version="v1", alerts=(alert,))


class Collector:
    """What a collector got."""

    def __init__(self) -> None:
        self.url, self.arrived, self.go = "", Event(), Event()
        self.bodies: list[bytes] = []
        self.go.set()

    def records(self) -> list[dict[str, Any]]:
        return [
            record
            for body in self.bodies
            for record in json.loads(body)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
        ]


@contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.bodies.append(body)
            found.arrived.set()
            found.go.wait()
            self.send_response(status if self.path == "/v1/logs" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_decision_is_an_event_in_the_trace_of_its_call() -> None:
    with collecting() as collector:
        events = DecisionEvents(collector.url)
        events.add(CALL, ruling(Action.BLOCK), judged=True)
        events.close()
    [record] = collector.records()
    said = {one["key"]: one["value"]["stringValue"] for one in record["attributes"]}
    assert (record["eventName"], record["traceId"], record["spanId"]) == ("stream_guard.decision", TRACE, SPAN)
    assert said["gen_ai.tool.name"] == "drop"
    assert said["gen_ai.tool.call.id"] == "c1"
    assert said["gen_ai.conversation.id"] == "s1"
    assert said["stream_guard.action"] == "block"
    assert said["stream_guard.judge.rule.ids"] == "no-drop"
    assert said["stream_guard.judged"] == "true"


def test_what_is_sent_is_what_the_protocol_defines() -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    with collecting() as collector:
        events = DecisionEvents(collector.url)
        for action in Action:
            events.add(CALL, ruling(action), judged=False)
        events.close()
    for body in collector.bodies:
        data = json.loads(body)
        for record in data["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
            # JSON of OTLP writes ids in hexadecimal, which the parser of protobuf's own JSON does not know.
            record["traceId"] = record["spanId"] = ""
        ParseDict(data, ExportLogsServiceRequest())
    assert len(collector.records()) == len(Action)


def test_nobody_waits_for_a_collector_and_what_finds_no_room_is_counted() -> None:
    with collecting() as collector:
        collector.go.clear()
        events = DecisionEvents(collector.url, most=3)
        events.add(CALL, ruling(Action.ALLOW), judged=True)
        collector.arrived.wait()
        for _ in range(10):
            events.add(CALL, ruling(Action.ALLOW), judged=True)
        assert events.dropped == 8
        collector.go.set()
        events.close()
        assert len(collector.records()) == 3


def test_a_collector_that_refuses_or_is_gone_costs_the_decisions_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with collecting(status=500) as collector:
        events = DecisionEvents(collector.url)
        events.add(CALL, ruling(Action.ALLOW), judged=True)
        events.close()
    assert events.dropped == 1
    assert "it answers 500" in caplog.text


def test_a_call_without_a_trace_has_none() -> None:
    with collecting() as collector:
        events = DecisionEvents(collector.url)
        events.add(
            ToolCall(session_id="s1", tool="x", labels={"traceparent": "00-0-0-0"}), ruling(Action.ALLOW), judged=True
        )
        events.close()
    assert "traceId" not in collector.records()[0]


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="write http://HOST:4318"):
        DecisionEvents("collector:4318")
