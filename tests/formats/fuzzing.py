"""Hand every decoder mutated records: events or DecodeError come of it, and nothing else.

python -m tests.formats.fuzzing [INPUTS] [SEED] prints the outcomes, for a million inputs by default.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from random import Random
from typing import Any, NamedTuple

from stream_guard.decoding.reader import with_memory
from stream_guard.errors import DecodeError
from stream_guard.ports import Record
from tests.formats.mutation import mutate
from tests.formats.session import SESSION_ID
from tests.formats.telemetry import TRACE
from tests.formats.test_corpus import DECODERS, RENDERERS

MILLION = 1_000_000
# What a decoder remembers from record to record is part of what is tested; now and then it begins anew.
RENEWED = 500
WAITING = "+waiting"  # the same decoder, with a memory in which spans wait for their session


class Crash(NamedTuple):
    """An input that a decoder did not survive."""

    name: str
    number: int
    value: bytes
    error: str


def names() -> list[str]:
    """Return every decoder, those that can hold back a second time, with a memory."""
    return [*DECODERS, *(f"{name}{WAITING}" for name, kind in DECODERS.items() if kind().waits)]


def seeds_of(name: str) -> list[bytes]:
    """Return records to begin with: those of the format, and for ``auto`` those of all."""
    form = name.removesuffix(WAITING)
    found = [
        value
        for rendering, render in RENDERERS.items()
        if form in ("auto", rendering.partition(":")[0])
        for value in render()
    ]
    return sorted((*found, *(short for value in found for short in pieces_of(value))), key=len)


def pieces_of(value: bytes) -> list[bytes]:
    """Return the record with only some of its messages or spans: what is short is mutated more thoroughly."""
    try:
        listed = longest_list(json.loads(value))
    except ValueError:
        return []
    pieces = []
    for start in range(0, len(listed) - 2, 2):
        data = json.loads(value)
        longest_list(data)[:] = listed[start : start + 3]
        pieces.append(json.dumps(data).encode())
    return pieces


def longest_list(data: Any) -> list[Any]:
    """Return the longest list in a value: its messages, its spans, its steps."""
    found: list[Any] = []
    left = [data]
    while left:
        one = left.pop()
        if isinstance(one, list) and len(one) > len(found):
            found = one
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []
    return found


def fuzz(name: str, inputs: int, seed: int, crashes: list[Crash]) -> Counter[str]:
    """Decode so many mutated records; what was not survived is appended to ``crashes``."""
    dice, seeds, seen = Random(f"{name} {seed}"), seeds_of(name), Counter[str]()
    kind, decoder = DECODERS[name.removesuffix(WAITING)], None
    value = seeds[0]
    for number in range(inputs):
        if decoder is None or number % RENEWED == 0:
            decoder = with_memory(kind()) if name.endswith(WAITING) else kind(strict_keys=dice.random() < 0.5)
        # Mostly from a whole record, sometimes from what the last change left.
        value = mutate(value if dice.random() < 0.2 and len(value) < 100_000 else dice.choice(seeds), dice)
        if name.endswith(WAITING):
            value = another_trace(value, dice)
        try:
            events = decoder.decode(Record(value, f"file{number % 3}", number))
            seen["events"] += len(events)
            seen["read"] += 1
            if any(not event.session_id or not event.event_id for event in events):
                crashes.append(Crash(name, number, value, "an event without the id of its session, or its own"))
        except DecodeError as error:
            seen["refused"] += 1
            if not str(error):
                crashes.append(Crash(name, number, value, "a refusal without a reason"))
        except Exception as error:  # noqa: BLE001  # that is what is looked for
            crashes.append(Crash(name, number, value, repr(error)))
            decoder = None
    return seen


def another_trace(value: bytes, dice: Random) -> bytes:
    """Return the record with another trace and conversation: a span that is sent again gives no events."""
    trace, session = f"{dice.randrange(300):032x}", f"order-{dice.randrange(10, 100)}"
    for old, new in ((TRACE.encode(), trace.encode()), (bytes.fromhex(TRACE), bytes.fromhex(trace))):
        value = value.replace(old, new)
    return value.replace(SESSION_ID.encode(), session.encode())


def main(inputs: int, seed: int) -> int:
    """Print what came of the inputs, shared among all decoders; the exit code is 1 when one was not survived."""
    crashes: list[Crash] = []
    each = -(-inputs // len(names()))
    print("decoder                 inputs      read   refused    events   not survived so far")
    for name in names():
        seen = fuzz(name, each, seed, crashes)
        row = f"{name:20} {each:>9} {seen['read']:>9} {seen['refused']:>9} {seen['events']:>9} {len(crashes):>9}"
        print(row, flush=True)
    for crash in crashes[:20]:
        print(f"{crash.name} input {crash.number}: {crash.error}\n  {crash.value[:2000]!r}")
    print(f"{each * len(names())} inputs, {len(crashes)} not survived")
    return min(len(crashes), 1)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    sys.exit(main(*numbers, *(MILLION, 0)[len(numbers) :]))
