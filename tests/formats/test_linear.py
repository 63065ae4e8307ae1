"""No record takes longer than its length allows: four times the record, about four times the work."""

from __future__ import annotations

import gc
import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from stream_guard.decoding.reader import with_memory
from stream_guard.errors import DecodeError
from stream_guard.ports import Record
from tests.formats.fuzzing import WAITING, longest_list, names
from tests.formats.test_corpus import DECODERS, RENDERERS

# Four times the record may take this many times as long; a step that is quadratic would take sixteen times.
MOST = 9.0
ENOUGH = 0.01  # seconds that a measurement should take, so that it says something


def whole(name: str) -> list[Any]:
    """Return the records of the format's session as data."""
    form = "openai-chat" if name == "auto" else name
    return [json.loads(value) for value in RENDERERS[form]()]


def dumped(data: Any) -> bytes:
    return json.dumps(data).encode()


def more_of_the_same(name: str, size: int) -> bytes:
    """Repeat what the record is a list of: every id is there many times."""
    record = max(whole(name), key=lambda one: len(dumped(one)))
    listed = longest_list(record)
    listed *= size
    return dumped(record)


def all_different(name: str, size: int) -> bytes:
    """Repeat it with ids of their own: nothing is known, and calls stay open."""
    text = dumped(max(whole(name), key=lambda one: len(dumped(one)))).decode()
    record = json.loads(text)
    listed = longest_list(record)
    part = json.dumps(listed)
    for number in range(size):
        copied = part.replace("call_", f"call_{number}x").replace("0000000000000", f"{number:013x}")
        listed += json.loads(copied)
    return dumped(record)


def only_results(name: str, size: int) -> bytes:
    """Leave out what a list begins with, so that results answer nothing, and repeat the rest."""
    record = max(whole(name), key=lambda one: len(dumped(one)))
    listed = longest_list(record)
    listed[:] = [one for one in listed if "result" in dumped(one).decode() or "tool" in dumped(one).decode()] * size
    return dumped(record)


def long_texts(name: str, size: int) -> bytes:
    """Blow every text up to something that begins like JSON, or like a call."""
    return dumped(_blown(max(whole(name), key=lambda one: len(dumped(one))), '[{"Action: x\n' * 20 * size))


def _blown(data: Any, text: str) -> Any:
    if isinstance(data, dict):
        return {
            key: text if key in ("text", "content") and isinstance(value, str) else _blown(value, text)
            for key, value in data.items()
        }
    return [_blown(one, text) for one in data] if isinstance(data, list) else data


def opened(_name: str, size: int) -> bytes:
    """Open brackets and never close one."""
    return b'{"messages":[' * 300 * size


def many_names(_name: str, size: int) -> bytes:
    """Give an object a great many names."""
    return dumped({f"messages.{number}": {"role": "user"} for number in range(300 * size)})


SHAPES: tuple[Callable[[str, int], bytes], ...] = (
    more_of_the_same,
    all_different,
    only_results,
    long_texts,
    opened,
    many_names,
)
PROTO = "otlp-proto"
# "otlp" is either encoding: each is here by its own name.
FORMS = [name for name in names() if not name.startswith(PROTO) and name.removesuffix(WAITING) != "otlp"]


def cost(name: str, values: list[bytes], rounds: int) -> list[float]:
    """Return the least processor time that each record takes, each time with a decoder that knows nothing."""
    least = [float("inf")] * len(values)
    kind = DECODERS[name.removesuffix(WAITING)]
    gc.disable()  # how often it runs, and for how long, depends on everything that is in memory
    try:
        for _ in range(rounds):
            for place, value in enumerate(values):
                decoder = with_memory(kind()) if name.endswith(WAITING) else kind()
                record = Record(value, "file", 0)
                began = time.process_time()
                with suppress(DecodeError):
                    decoder.decode(record)
                if decoder.waits:
                    deque(decoder.finish(), maxlen=0)
                least[place] = min(least[place], time.process_time() - began)
    finally:
        gc.enable()
    return least


def more_messages(_name: str, size: int) -> bytes:
    """Repeat the bytes: protobuf reads that as a message with everything repeated."""
    return RENDERERS[PROTO]()[0] * size


def cut_off(_name: str, size: int) -> bytes:
    """End in the middle of a message that is whole otherwise."""
    return (RENDERERS[PROTO]()[0] * size)[:-3]


CASES = [
    pytest.param(name, shape, marks=() if shape is all_different else pytest.mark.long)
    for name in FORMS
    for shape in SHAPES
]
CASES += [
    pytest.param(name, shape, marks=pytest.mark.long)
    for name in names()
    if name.startswith(PROTO)
    for shape in (more_messages, cut_off)
]


@pytest.mark.parametrize(("name", "shape"), CASES, ids=lambda one: one if isinstance(one, str) else one.__name__)
def test_four_times_the_record_takes_about_four_times_as_long(
    name: str, shape: Callable[[str, int], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR")
    form, size = name.removesuffix(WAITING), 16
    while True:
        values = [shape(form, size), shape(form, 4 * size)]
        small, large = cost(name, values, rounds=1)
        if large >= ENOUGH or size >= 256:
            break
        size *= 4
    if not large < MOST * max(small, ENOUGH / 8):  # something else may have run just then
        small, large = cost(name, values, rounds=5)
    assert large < MOST * max(small, ENOUGH / 8), f"size {size}: {small:.4f} s, and four times that: {large:.4f} s"
