"""Telemetry beside the gate, when it cannot be judged."""

from __future__ import annotations

import urllib.request
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Event as Flag
from typing import Any, cast

import pytest

from stream_guard.registry import build_registry
from stream_guard.serve.service import Service
from stream_guard.serve.telemetry import TelemetryFeed
from stream_guard.settings import ReceiverSettings
from stream_guard.sources.otlp import open_otlp
from tests.formats.telemetry import otlp_current


class FullDisk:
    """A service whose history cannot be written."""

    def submit(self, *_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(OSError(28, "No space left on device"))
        return future


class Letters:
    """Nothing here is a dead letter."""

    def put(self, *_: Any) -> None:
        raise AssertionError("the export can be decoded")


def post(url: str, body: bytes) -> int:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(answer.status)


def test_what_cannot_be_judged_is_no_longer_taken_in_and_is_not_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, (export, *_), stop = ReceiverSettings(spool=tmp_path), otlp_current(), Flag()
    source = open_otlp("otlp://127.0.0.1:0", settings, most=1 << 20, positions={}, stop=stop)
    url = f"{source.url}/v1/traces"
    decoder = build_registry().decoders["otlp"]()
    feed = TelemetryFeed(source, decoder, cast(Any, Letters()), cast(Service, FullDisk()), stop)
    assert post(url, export) == 200
    with suppress(OSError):  # cut off or refused, whichever comes first
        while True:
            post(url, export)
    feed.close()
    assert "telemetry is neither judged nor taken in any more" in caplog.text
    with pytest.raises(OSError, match="refused"):
        post(url, export)
    again = open_otlp("otlp://127.0.0.1:0", settings, most=1 << 20, positions={}, stop=stop)
    kept = next(iter(again))
    again.close()
    assert kept is not None
    assert kept.value == export
