"""How quickly each format is decoded, as a share of what parsing its bytes alone costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from stream_guard.ports import Decoder, Record
from stream_guard.registry import Registry
from tests.bench.measure import Work, best_of
from tests.formats.test_corpus import RENDERERS, TEXTS


def measure(registry: Registry, times: int = 100) -> dict[str, Any]:
    """Return, for each format, the time for the corpus session and the share of orjson's time for the same bytes."""
    contenders: dict[str, Work] = {}
    sizes: dict[str, int] = {}
    for name in TEXTS:
        values = RENDERERS[name]()
        records = [Record(value, "bench", position) for position, value in enumerate(values)]
        sizes[name] = sum(map(len, values)) * times
        contenders[f"{name} floor"] = partial(_parse, values, times)
        contenders[name] = partial(_decode, registry.decoders[name.partition(":")[0]], records, times)
    least = best_of(contenders, rounds=3)
    return {
        name: {
            "megabytes_per_second": size / least[name] / 1e6,
            "share_of_floor": least[f"{name} floor"] / least[name],
        }
        for name, size in sizes.items()
    }


def _parse(values: list[bytes], times: int) -> None:
    for _ in range(times):
        for value in values:
            orjson.loads(value)


def _decode(kind: type[Decoder], records: list[Record], times: int) -> None:
    decode = kind().decode
    for _ in range(times):
        for record in records:
            decode(record)
