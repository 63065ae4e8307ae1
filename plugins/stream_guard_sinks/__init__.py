"""Sinks: the places that alerts go to."""

from __future__ import annotations

from stream_guard import Sink, hookimpl
from stream_guard_sinks.alertmanager import AlertmanagerSink
from stream_guard_sinks.chat import AppriseSink
from stream_guard_sinks.console import ConsoleSink
from stream_guard_sinks.history import HistorySink
from stream_guard_sinks.jsonl import JsonLinesSink
from stream_guard_sinks.kafka import KafkaSink
from stream_guard_sinks.otlp import OcsfSink, OtlpSink
from stream_guard_sinks.webhook import SignedWebhookSink


@hookimpl
def stream_guard_sinks() -> dict[str, type[Sink]]:
    """Return the sinks of this pack, by name."""
    return {
        "alertmanager": AlertmanagerSink,
        "apprise": AppriseSink,
        "console": ConsoleSink,
        "history": HistorySink,
        "jsonl": JsonLinesSink,
        "kafka": KafkaSink,
        "ocsf": OcsfSink,
        "otlp": OtlpSink,
        "webhook": SignedWebhookSink,
    }
