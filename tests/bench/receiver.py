"""The receiver: spans a second for a minute on one core, with everything acknowledged durable and read back."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from stream_guard.sources.receiver import PROTOBUF
from stream_guard.storage.spool import Spool
from tests.bench.measure import processor_seconds

SECONDS = 60
RATE = 10_000  # spans a second that are offered
BATCH = 100  # spans of one export; exporters send up to 512
CLIENTS = 4

_PROGRAM = """
import os, sys
from pathlib import Path
from threading import Event
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from stream_guard.sources.receiver import OtlpReceiver
from stream_guard.storage.spool import Spool
print(OtlpReceiver("127.0.0.1", 0, Spool(Path(sys.argv[1]), max_bytes=4 << 30), most=8 << 20).port, flush=True)
Event().wait()
"""


def measure(folder: Path, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the rate that was acknowledged, the processor time it took, and how many spans the spool has."""
    where = folder / "spool"
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(where)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    counted: list[tuple[int, int]] = []
    began = time.monotonic()
    threads = [Thread(target=_send, args=(port, began, seconds, counted)) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    used = processor_seconds(process.pid)
    process.kill()  # not ended in order: what was acknowledged must be there
    process.wait()
    process.stdout.close()
    taken, refused = (sum(numbers) * BATCH for numbers in zip(*counted, strict=True))
    spool = Spool(where, max_bytes=4 << 30)
    kept = sum(1 for _ in spool.read(0)) * BATCH
    spool.close()
    return {
        "seconds": took,
        "spans_per_second": taken / took,
        "acknowledged": taken,
        "refused": refused,
        "in_the_spool": kept,
        "share_of_one_core": used / took,
    }


def _send(port: int, began: float, seconds: float, counted: list[tuple[int, int]]) -> None:
    """Send exports at a steady rate, a share of the whole for each client."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    pause = BATCH * CLIENTS / RATE
    export = _export()
    taken = refused = 0
    due = began
    while due < began + seconds:
        if (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        connection.request("POST", "/v1/traces", export, {"content-type": PROTOBUF})
        answer = connection.getresponse()
        answer.read()
        taken, refused = taken + (answer.status == 200), refused + (answer.status != 200)
        due += pause
    counted.append((taken, refused))
    connection.close()


def _export() -> bytes:
    spans = []
    for _ in range(BATCH):
        span = Span(trace_id=os.urandom(16), span_id=os.urandom(8), name="execute_tool get_weather")
        span.start_time_unix_nano, span.end_time_unix_nano = 1_767_600_000 * 10**9, 1_767_600_001 * 10**9
        for name, value in (
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "get_weather"),
            ("gen_ai.tool.call.id", "call_JpNbRx1"),
            ("gen_ai.tool.call.arguments", '{"location": "Paris", "unit": "celsius"}'),
            ("gen_ai.tool.call.result", "rainy, 14 degrees, wind from the west, clearing up in the evening"),
            ("gen_ai.conversation.id", "conversation-4711"),
        ):
            span.attributes.add(key=name).value.string_value = value
        spans.append(span)
    scope = ScopeSpans(spans=spans)
    export = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[scope])])
    return bytes(export.SerializeToString())
