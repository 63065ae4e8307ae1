"""Telemetry beside the gate: each export is judged once, whatever fails meanwhile and whenever the server ends."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Condition
from threading import Event as Flag
from typing import Any

import pytest
from starlette.testclient import TestClient

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.history.database import open_database
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Action, Alert, Event, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.ports import Decoder, Record
from stream_guard.registry import build_registry
from stream_guard.serve.app import make_app
from stream_guard.serve.service import Service
from stream_guard.serve.telemetry import TelemetryFeed
from stream_guard.sources.otlp import OtlpSource
from stream_guard.sources.receiver import OtlpReceiver
from stream_guard.storage.spool import Spool
from stream_guard.storage.stores import CheckpointStore
from tests.formats.telemetry import otlp_current

REGISTRY = build_registry()
POLICY = """
rules:
  - {id: no-secrets, kind: forbidden_text, params: {text: SECRET, where: tool_result}, severity: critical}
  - {id: by-agent, kind: max_calls, params: {tool: refund, n: 5}, key: [agent], then: block}
"""
CALLS = [
    {"kind": "tool_call", "session_id": f"s{n}", "event_id": f"e{n}", "call_id": "c", "agent": "bot", "tool": "refund"}
    for n in range(3)
]
RESULTS = [
    {"kind": "tool_result", "session_id": f"s{n}", "event_id": f"r{n}", "call_id": "c", "tool": "t", "output": "SECRET"}
    for n in range(4)
]


class Door:
    """Where exports would come in."""

    url = "http://127.0.0.1:0"
    content_type = staticmethod(OtlpReceiver.content_type)

    def close(self) -> None:
        """Nothing is open."""


class Serving:
    """A gate with telemetry, as a server has it, on real files."""

    def __init__(self, folder: Path, decoder: Decoder, policy: str, *, stored: bool) -> None:
        self.spool, self.stop = Spool(folder / "spool"), Flag()
        self.counts, self.alerts = Counts(), list[Alert]()
        self.history = open_database(str(folder / "history.db"))
        self.store = CheckpointStore(folder / "state.db") if stored else None
        rules: Policy = load_policy(policy.encode(), REGISTRY)
        guard = Guard(rules, store=self.store, counts=self.counts)
        self.gate = Gate(rules, self.history, guard=guard)
        self.service = Service(self.gate)
        self.gate.outgoing = self.alerts.extend
        self.letters = DeadLetters(None, self.counts, format_name="native")
        self.source = OtlpSource(self.spool, Door(), position=0, stop=self.stop)  # type: ignore[arg-type]
        self.feed = TelemetryFeed(self.source, decoder, self.letters, self.service, self.stop)

    def close(self) -> None:
        self.feed.close()
        self.service.close()
        if self.store is not None:
            self.store.close()
        self.history.close()

    def judged(self) -> int:
        return sum(self.counts.events.values())

    def incidents(self) -> int:
        [(number,)] = self.history.read("SELECT count(*) FROM sg_incidents")
        return int(number)


@contextmanager
def serving(
    folder: Path, decoder: Decoder | None = None, policy: str = POLICY, *, stored: bool = True
) -> Iterator[Serving]:
    with closing(Serving(folder, decoder or REGISTRY.decoders["native"](), policy, stored=stored)) as served:
        yield served


def until(holds: Callable[[], bool]) -> None:
    """Look until something holds; the limit of a test says when it never will."""
    waiting = Condition()
    with waiting:
        while not waiting.wait_for(holds, 0.02):
            pass


def is_read(served: Serving) -> bool:
    return served.source.position == served.spool.end


def encoded(events: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


@pytest.mark.parametrize("stored", [True, False], ids=["with-a-checkpoint", "without"])
def test_a_server_that_is_started_again_judges_nothing_of_before(tmp_path: Path, stored: bool) -> None:
    with serving(tmp_path, stored=stored) as first:
        for body in encoded(CALLS):
            first.spool.add(body)
        until(lambda: first.judged() == 3)
    with serving(tmp_path, stored=stored) as second:
        second.spool.add(encoded([CALLS[0] | {"session_id": "new"}])[0])
        until(lambda: second.judged() == 1)
        assert second.counts.duplicate_events == 0
        question = ToolCall(session_id="q", event_id="q", call_id="q", agent="bot", tool="refund")
        answers = [second.gate.check(question)] + [
            second.gate.check(ToolCall(session_id="q", event_id=f"q{n}", call_id=f"q{n}", agent="bot", tool="refund"))
            for n in range(4)
        ]
    allowed = sum(answer.action is Action.ALLOW for answer in answers)
    assert allowed == (1 if stored else 4)


def test_another_spool_in_place_of_the_one_before_is_read_from_its_begin(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        for body in encoded(CALLS[:2]):
            first.spool.add(body)
        until(lambda: first.judged() == 2)
    (tmp_path / "spool").rename(tmp_path / "old")
    with serving(tmp_path) as second:
        second.spool.add(encoded(CALLS[2:])[0])
        until(lambda: second.judged() == 1)


@pytest.mark.parametrize("stored", [True, False], ids=["with-a-checkpoint", "without"])
def test_spans_that_wait_for_others_wait_over_a_restart(tmp_path: Path, stored: bool) -> None:
    export = json.loads(otlp_current()[0])
    spans = export["resourceSpans"][0]["scopeSpans"][0]["spans"]
    halves = [json.loads(json.dumps(export)) for _ in range(2)]
    root = [span for span in spans if not span.get("parentSpanId")]
    inner = [span for span in spans if span.get("parentSpanId")]
    assert root
    assert inner
    for half, its_spans in zip(halves, (inner, root), strict=True):
        half["resourceSpans"][0]["scopeSpans"][0]["spans"] = its_spans
    whole = tmp_path / "whole"
    with serving(whole, REGISTRY.decoders["otlp-json"]()) as at_once:
        at_once.spool.add(json.dumps(export).encode())
        until(partial(is_read, at_once))
        at_once.feed.close()
        wanted = dict(at_once.counts.events)
    judged: dict[type[Event], int] = {}
    for half in halves:
        with serving(tmp_path, REGISTRY.decoders["otlp-json"](), stored=stored) as served:
            served.spool.add(json.dumps(half).encode())
            until(partial(is_read, served))
            served.feed.close()
            for kind, number in served.counts.events.items():
                judged[kind] = judged.get(kind, 0) + number
    assert {kind: number for kind, number in judged.items() if number} == {k: n for k, n in wanted.items() if n}


@contextmanager
def locked(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def test_while_the_history_is_locked_exports_are_taken_in_and_judged_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_guard.history.database._PATIENCE", 0.05)
    with serving(tmp_path) as served:
        client = TestClient(make_app(served.service, REGISTRY.decoders["native"]()), base_url="http://127.0.0.1")
        assert client.get("/readyz").status_code == 200
        with locked(tmp_path / "history.db"):
            for body in encoded(RESULTS):
                served.spool.add(body)
            until(lambda: client.get("/readyz").status_code == 503)
            assert "telemetry waits" in client.get("/readyz").text
            assert client.get("/healthz").status_code == 200
        until(lambda: served.incidents() == 4)
        until(lambda: client.get("/readyz").status_code == 200)
        assert sorted({alert.session_id for alert in served.alerts}) == ["s0", "s1", "s2", "s3"]
    with serving(tmp_path) as again:
        assert again.incidents() == 4


def test_what_a_locked_history_kept_back_is_told_by_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_guard.history.database._PATIENCE", 0.05)
    with serving(tmp_path) as served, locked(tmp_path / "history.db"):
        served.spool.add(encoded(RESULTS)[0])
        until(lambda: bool(served.service.obstacles))
        served.feed.close()
    with serving(tmp_path) as again:
        again.service.submit(again.service.tell_left).result()
        assert again.incidents() == 1
        assert [alert.session_id for alert in again.alerts] == ["s0"]


class Failing:
    """A decoder of a plugin that fails where a record says so."""

    def __init__(self) -> None:
        self._native = REGISTRY.decoders["native"]()
        self.waits = False

    def decode(self, record: Record) -> Any:
        if b"boom" in record.value:
            raise ZeroDivisionError
        return self._native.decode(record)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)


@pytest.mark.parametrize("odd", [b'{"boom": 1}', b"no event", b'{"kind": "turn"}'])
def test_an_export_that_cannot_be_judged_is_a_dead_letter_and_holds_up_nothing(tmp_path: Path, odd: bytes) -> None:
    decoder: Any = Failing()
    with serving(tmp_path, decoder) as served:
        for body in (encoded(RESULTS)[0], odd, encoded(RESULTS)[1]):
            served.spool.add(body)
        until(lambda: served.incidents() == 2)
        assert served.letters.total == 1
    with serving(tmp_path, decoder) as again:
        again.spool.add(encoded(RESULTS)[2])
        until(lambda: again.incidents() == 3)
        assert again.letters.total == 0
