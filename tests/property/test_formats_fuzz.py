"""Every decoder on mutated recordings: events or DecodeError, and never slower than the input is long."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from stream_guard import DecodeError, Event, Record
from stream_guard.ports import Decoder
from tests.formats.test_corpus import DECODERS, RENDERERS

QUICK = 200
MILLION = 1_000_000
JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, 10**30, "", "x", "\x00\u202e", "[", '"{\\"a\\": 1}"', '{"a": [1, {"role": "user"}]}',
    [], {}, [None], [[]], {"role": "tool"}, {"type": "tool_use"}, [{"role": "assistant", "tool_calls": [1]}],
    "9" * 5000,
)  # fmt: skip


def mutate(value: bytes, random: Random) -> bytes:
    """Hit a record: pieces of its JSON replaced, taken out, swapped or wrapped in a text, or its bytes themselves."""
    if random.random() < 0.3 or not value.startswith((b"{", b"[")):
        found = bytearray(value)
        for _ in range(random.randint(1, 4)):
            place = random.randrange(len(found) + 1)
            found[place : place + random.randint(0, 8)] = random.randbytes(random.randint(0, 4))
        return bytes(found)
    data = json.loads(value)
    for _ in range(random.randint(1, 3)):
        data = _hit(data, random)
    return json.dumps(data, ensure_ascii=random.random() < 0.5).encode("utf-8", "replace")


def _hit(data: Any, random: Random) -> Any:
    holder: Any = None
    key: Any = None
    inner = data
    while isinstance(inner, dict | list) and inner and (holder is None or random.random() < 0.75):
        holder, key = inner, random.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        inner = inner[key]
    if holder is None:
        return deepcopy(random.choice(JUNK))
    change = random.randrange(4)
    if change == 0:
        holder[key] = deepcopy(random.choice(JUNK))
    elif change == 1:
        del holder[key]
    elif change == 2:
        holder[key] = json.dumps(inner)
    else:
        other = random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        holder[key], holder[other] = holder[other], holder[key]
    return data


def attack(name: str, times: int) -> None:
    """Decode mutated records; whatever is raised that is not a DecodeError fails with the record that raised it."""
    random = Random(name)
    events: Sequence[Event] = ()
    records = RENDERERS[name]()
    decoder: Decoder = DECODERS[name.partition(":")[0]]()
    for position in range(times):
        value = mutate(random.choice(records), random)
        try:
            events, reason = decoder.decode(Record(value, "fuzz", position)), "events"
        except DecodeError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001  # this is what is looked for
            pytest.fail(f"{name} raised {error!r} on {value!r}")
        assert reason
        for event in () if reason != "events" else events:
            assert event.session_id
            assert event.event_id
            assert event.time is None or 0 <= event.time < 1e12


@pytest.mark.parametrize("name", RENDERERS)
def test_mutated_recording_becomes_events_or_a_reason(name: str) -> None:
    attack(name, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", RENDERERS)
def test_a_million_mutated_recordings_become_events_or_a_reason(name: str) -> None:
    attack(name, MILLION // len(RENDERERS) + 1)


def _chat(size: int) -> Any:
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"a": 1}'}}
    return {"messages": [{"role": "assistant", "content": "x", "tool_calls": [call] * 3}] * size}


def _langfuse(size: int) -> Any:
    """Nest spans, and let none of the calls they announce be answered."""
    output = json.dumps({"role": "assistant", "tool_calls": [{"name": "t", "args": {}}] * 3})
    rows = [
        {"id": f"{n}", "parentObservationId": f"{n - 1}", "type": "AGENT" if n % 2 else "GENERATION", "output": output}
        for n in range(size)
    ]
    return {"trace": {"id": "t"}, "observations": rows}


def _otlp(size: int) -> Any:
    names = [f"llm.input_messages.{n}.message.content" for n in range(size)]
    attributes = [{"key": name, "value": {"stringValue": "x"}} for name in names]
    attributes.append({"key": "openinference.span.kind", "value": {"stringValue": "LLM"}})
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "attributes": attributes}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def _blocks(size: int) -> Any:
    line = {"sessionId": "s", "type": "assistant", "message": {"content": [{"type": "tool_use", "input": {}}] * size}}
    return line | {"uuid": "u"}


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("openai-chat", _chat),
        ("langfuse", _langfuse),
        ("otlp-json", _otlp),
        ("claude-code", _blocks),
    ],
)
def test_eight_times_the_input_takes_no_more_than_linear_time(name: str, make: Callable[[int], Any]) -> None:
    decoder = DECODERS[name]()

    def least(size: int, rounds: int) -> float:
        record = Record(json.dumps(make(size)).encode())
        taken = []
        # Collecting garbage costs by what the whole process holds, not by what is decoded.
        gc.disable()
        try:
            for _ in range(rounds):
                began = time.process_time()
                decoder.decode(record)
                taken.append(time.process_time() - began)
        finally:
            gc.enable()
        return min(taken)

    # Twice what linear would be, for the noise of a shared machine; quadratic would be 64 times.
    large, small = least(4000, rounds=1), least(500, rounds=3)
    if not large < 16 * max(small, 1e-3):  # something else may have run just then
        large, small = least(4000, rounds=5), least(500, rounds=5)
    assert large < 16 * max(small, 1e-3)
