"""How quickly each format is decoded, as a share of what parsing its bytes alone costs: with orjson, or protobuf."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stream_guard.ports import Decoder, Record
from stream_guard.registry import Registry
from tests.bench.measure import Work, best_of
from tests.formats.test_corpus import RENDERERS

PROTOBUF = ExportTraceServiceRequest.FromString
PARSERS: dict[str, Callable[[bytes], object]] = {"otlp-proto": PROTOBUF, "otlp": PROTOBUF}


def measure(registry: Registry, times: int = 100) -> dict[str, Any]:
    """Return, for each format, how fast the corpus session is decoded, and the share of that which its parser takes."""
    contenders: dict[str, Work] = {}
    sizes: dict[str, int] = {}
    for name in RENDERERS:
        values = RENDERERS[name]()
        records = [Record(value, "bench", position) for position, value in enumerate(values)]
        sizes[name] = sum(map(len, values)) * times
        contenders[f"{name} floor"] = partial(_parse, PARSERS.get(name, orjson.loads), values, times)
        contenders[name] = partial(_decode, registry.decoders[name.partition(":")[0]], records, times)
    least = best_of(contenders, rounds=3)
    return {
        name: {
            "megabytes_per_second": size / least[name] / 1e6,
            "share_of_floor": least[f"{name} floor"] / least[name],
        }
        for name, size in sizes.items()
    }


def _parse(parser: Callable[[bytes], object], values: list[bytes], times: int) -> None:
    for _ in range(times):
        for value in values:
            parser(value)


def _decode(kind: type[Decoder], records: list[Record], times: int) -> None:
    decode = kind().decode
    for _ in range(times):
        for record in records:
            decode(record)
