"""Telemetry over HTTP into a run and into a server: judged once, in either encoding, and across a restart."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from threading import Event, Thread

from stream_guard.policy.load import load_policy
from stream_guard.running.assembly import Assembly
from stream_guard.running.embedded import RunOptions, open_run
from stream_guard.serve.assembly import open_server
from stream_guard.settings import ApiSettings, HistorySettings, ReceiverSettings, Settings
from stream_guard.sources.receiver import JSON, PROTOBUF
from tests.formats.telemetry import otlp_current, otlp_proto
from tests.ports import free_port

POLICY = {"rules": [{"id": "no-refunds", "kind": "no_call", "params": {"tool": "issue_refund"}}]}


def post(url: str, body: bytes, media: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    connection.request("POST", "/v1/traces", body, {"content-type": media})
    assert connection.getresponse().status == 200
    connection.close()


def run_once(folder: Path, bodies: list[tuple[bytes, str]]) -> list[str]:
    """Run until everything that was posted is judged; return the alerts so far."""
    stop = Event()
    alerts = folder / "alerts.jsonl"
    with Assembly(Settings(receiver=ReceiverSettings(spool=folder / "spool"))) as assembly:
        form = assembly.form_of("otlp://127.0.0.1:0", "auto")
        policy = load_policy(json.dumps(POLICY), assembly.registry, file="policy.json")
        options = RunOptions(
            source="otlp://127.0.0.1:0",
            policy=policy,
            alerts=(f"jsonl:{alerts}",),
            form=form,
            checkpoint=folder / "checkpoint",
            follow=True,
        )
        opened = open_run(options, assembly, stop)
        before = opened.counts.records
        thread = Thread(target=opened.runner.run, kwargs={"stopped": lambda: stop.is_set() and _is_done()})

        def _is_done() -> bool:
            return opened.counts.records - before >= len(bodies)

        thread.start()
        for body, media in bodies:
            post(opened.listening, body, media)
        stop.set()
        thread.join()
        assert opened.counts.records == len(bodies)
        assert opened.dead_letters.total == 0
    return [json.loads(line)["alert_id"] for line in alerts.read_text().splitlines()] if alerts.exists() else []


def test_a_run_judges_what_it_received_once_across_encodings_and_restarts(tmp_path: Path) -> None:
    exports = [(otlp_current()[0], JSON), (otlp_proto()[0], PROTOBUF)]
    found = run_once(tmp_path, exports)  # the second tells the same spans again
    assert len(found) == 1
    assert run_once(tmp_path, exports[:1]) == found


def test_a_server_judges_telemetry_beside_the_gate(tmp_path: Path) -> None:
    settings = Settings(
        receiver=ReceiverSettings(spool=tmp_path / "spool"),
        api=ApiSettings(port=0),
        history=HistorySettings(url=str(tmp_path / "history.db")),
    )
    alerts = tmp_path / "alerts.jsonl"
    port = free_port()
    with Assembly(settings) as assembly:
        policy = load_policy(json.dumps(POLICY), assembly.registry, file="policy.json")
        open_server(policy, assembly, (f"jsonl:{alerts}",), telemetry=f"otlp://127.0.0.1:{port}")
        post(f"127.0.0.1:{port}", otlp_proto()[0], PROTOBUF)
        post(f"127.0.0.1:{port}", otlp_current()[0], JSON)
    (line,) = alerts.read_text().splitlines()  # closing waits for what was taken in
    assert json.loads(line)["rule_id"] == "no-refunds"
