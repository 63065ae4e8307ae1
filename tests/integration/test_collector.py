"""A real Collector between an agent and us: one call is one call, on Kafka and in our receiver."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from stream_guard.judge.model import ToolCall
from stream_guard.ports import Record
from stream_guard.sources.receiver import OtlpReceiver
from stream_guard.storage.spool import Spool
from tests.collector.building import collector
from tests.kafka.cluster import Cluster
from tests.kafka.reading import read
from tests.ports import free_port
from tests.vectors.shown import show_records

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(find_spec("mcp") is None, reason="mcp is not installed"),  # the agent of these tests uses it
]
ROOT = Path(__file__).parent.parent.parent


@contextmanager
def running(program: Path, config: dict[str, object], port: int, folder: Path) -> Iterator[None]:
    """Run the Collector until it answers, and stop it at the end."""
    file = folder / "collector.yaml"
    file.write_text(json.dumps(config))  # JSON is YAML
    with (folder / "collector.log").open("wb") as log:
        process = subprocess.Popen([str(program), "--config", f"file:{file}"], stdout=log, stderr=log)
        try:
            for _ in range(300):
                assert process.poll() is None, (folder / "collector.log").read_text()[-2000:]
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
                    break
                time.sleep(0.1)
            yield
        finally:
            process.terminate()  # it exports what it still has
            process.wait()


def test_one_call_through_a_collector_is_one_call_on_kafka_and_over_http(cluster: Cluster, tmp_path: Path) -> None:
    program = collector()
    topic, port = cluster.create(), free_port()
    spool = Spool(tmp_path / "spool")
    receiver = OtlpReceiver("127.0.0.1", 0, spool, most=8 << 20)
    config: dict[str, object] = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {
            "otlphttp": {"endpoint": receiver.url},
            "kafka": {"brokers": [cluster.address], "traces": {"topic": topic, "encoding": "otlp_proto"}},
        },
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlphttp", "kafka"]}},
        },
    }
    with running(program, config, port, tmp_path):
        subprocess.run(
            [sys.executable, "-m", "tests.collector.agent", f"http://127.0.0.1:{port}"],
            check=True,
            cwd=ROOT,
            env={**os.environ, "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"},
        )
    over_http = [
        Record(
            one.body, "otlp", one.position, headers=(("content-type", OtlpReceiver.content_type(one.sort).encode()),)
        )
        for one in spool.read(0)
    ]
    receiver.close()
    spool.close()
    for records in (over_http, read(cluster.url(topic))):
        events = show_records("otlp", records).events
        calls = Counter(event.tool for event in events if isinstance(event, ToolCall))
        assert calls == {"lookup_order": 1, "send_mail": 1}
        assert len({event.session_id for event in events}) == 1


def test_the_configuration_that_is_deployed_is_one_that_the_collector_takes() -> None:
    config = ROOT / "deploy" / "collector" / "collector.yaml"
    done = subprocess.run(
        [str(collector()), "validate", "--config", f"file:{config}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
