"""Batches on a real topic that unpack to more than a reader can hold: a dead letter each, and reading goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kafka.cluster import Cluster, Row
from tests.vectors.attacks.processes import Process

pytestmark = pytest.mark.kafka

MB = 1 << 20
POLICY = "rules:\n  - {id: no-refund, kind: no_call, params: {tool: refund}, severity: critical}\n"


def call(number: int) -> Row:
    event = {"kind": "tool_call", "session_id": f"s{number}", "event_id": f"e{number}", "tool": "refund", "args": {}}
    return Row(json.dumps(event | {"time": 1767600000 + number}).encode(), key=b"k", partition=0)


@pytest.mark.parametrize(
    "codec", ["zstd", *(pytest.param(codec, marks=pytest.mark.long) for codec in ("gzip", "snappy", "lz4"))]
)
def test_a_batch_that_unpacks_too_far_is_a_dead_letter_with_its_offsets_and_the_run_goes_on(
    cluster: Cluster, tmp_path: Path, codec: str
) -> None:
    events, letters = cluster.create(max_message_bytes=str(16 * MB)), cluster.create()
    bomb = [Row(b'{"pad": "' + b"x" * (7 * MB) + b'"}', key=b"k", partition=0)] * 24  # each is within the limit
    cluster.fill(events, [call(0), call(1)])
    cluster.fill_one_batch(events, bomb, codec)
    cluster.fill(events, [call(2), call(3)])
    (tmp_path / "policy.yaml").write_text(POLICY)
    words = ["run", cluster.url(events), "--no-follow", "--no-serve", "--policy", str(tmp_path / "policy.yaml")]
    words += ["--alerts", f"jsonl:{tmp_path / 'alerts.jsonl'}", "--dead-letters", cluster.url(letters)]
    process = Process(tmp_path, *words, "--checkpoint", str(tmp_path / "progress.db"), fresh=True)
    process.finish(120)
    process.stop()
    assert process.exit == 0, process.said()
    alerts = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert [alert["event_id"] for alert in alerts] == ["e0", "e1", "e2", "e3"]
    (letter,) = cluster.read(letters)
    headers = dict(letter.headers)
    assert b"offsets 2 to 25 cannot be read" in headers["stream_guard_reason"]
    assert headers["stream_guard_origin"] == f"{events}/0".encode()
    assert headers["stream_guard_offset"] == b"25"
    assert process.peak_mb < 400, "168 MB would be in memory three times"
    again = Process(tmp_path, *words, "--checkpoint", str(tmp_path / "progress.db"))
    again.finish(120)
    again.stop()
    assert again.exit == 0, again.said()
    assert len(cluster.read(letters)) == 1
