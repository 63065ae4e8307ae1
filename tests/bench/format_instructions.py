"""Instructions that decoding the corpus session takes in each format, counted by callgrind in the plain build.

``python -m tests.bench.format_instructions`` prints them beside those that were kept: of the version before views of a
call were merged, and of the last count. ``keep`` as an argument keeps them. It takes minutes, and needs valgrind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from stream_guard.ports import Record
from stream_guard.registry import Registry, build_registry
from tests.bench.instructions import be_counted, count_parts
from tests.bench.measure import Work
from tests.formats.test_corpus import RENDERERS

KEPT: Final = Path(__file__).parent / "data" / "format_instructions.json"
_NAME: Final = "tests.bench.format_instructions"  # also where it is run as a script
TIMES: Final = 3  # that the session is decoded by one decoder


def kept() -> dict[str, Any]:
    """Return what was counted before: ``on``, ``before`` and ``now``, the latter two by format."""
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def main(arguments: Sequence[str]) -> None:
    """Count, print, and keep the count where that is asked for."""
    counted, before = count_parts(_NAME, compiled=False), kept()
    for name, number in counted.items():
        known = {"before": before["before"].get(name), "the last count": before["now"].get(name)}
        ratios = [f", {number / other:.3f} of {what}" for what, other in known.items() if other]
        print(f"{name:26} {number:10,d} instructions a session{''.join(ratios)}")
    if "keep" in arguments:
        KEPT.write_text(json.dumps(before | {"now": counted}, indent=1) + "\n", encoding="utf-8")


def _works(registry: Registry) -> Mapping[str, tuple[Work, int]]:
    """Return the decoding of each format, done once before: a decoder prepares what it needs when it is first used."""
    works: dict[str, tuple[Work, int]] = {}
    for name, render in RENDERERS.items():
        records = [Record(value, "bench", position) for position, value in enumerate(render())]
        work = partial(_decode, registry.decoders[name.partition(":")[0]], records)
        work()
        works[name] = work, TIMES
    return works


def _decode(kind: Callable[[], Any], records: Sequence[Record]) -> None:
    decode = kind().decode
    for _ in range(TIMES):
        for record in records:
            decode(record)


if __name__ == "__main__":
    if len(sys.argv) > 1 and Path(sys.argv[1]).is_dir():  # under callgrind
        be_counted(_works(build_registry()))
    else:
        main(sys.argv[1:])
