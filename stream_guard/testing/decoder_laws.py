"""The laws of every decoder, ours and those of other packages; ``check_decoder_laws(kind, samples)`` runs them all.

Records are made by hypothesis: the samples with odd fields, with damaged bytes, and bytes that are no sample at all.
A law that breaks raises AssertionError with its name and the smallest record that breaks it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from stream_guard.errors import DecodeError
from stream_guard.judge.model import Event, Json
from stream_guard.ports import Decoder, Record

JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def check_decoder_laws(kind: type[Decoder], samples: Sequence[bytes], *, examples: int = 100) -> None:
    """Hold a decoder to all laws. ``samples`` are records it reads; ``examples`` is how many others are tried."""
    check_samples(kind, samples)
    for sample in samples:
        check_truncated(kind, sample)

    @seed(2026)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(value=st.binary() | damaged(samples), strict_keys=st.booleans())
    def run(value: bytes, *, strict_keys: bool) -> None:
        check_any_bytes(kind, value, strict_keys=strict_keys)

    run()


def check_samples(kind: type[Decoder], samples: Sequence[bytes]) -> None:
    """Every sample is read, and at least one of them has an event."""
    _require(samples, "law of samples: give at least one record that the decoder reads")
    read = [_decode(kind(), sample) for sample in samples]
    for sample, events in zip(samples, read, strict=True):
        _require(not isinstance(events, str), f"law of samples: {kind.__name__} refuses {sample!r}: {events}")
    _require(any(read), f"law of samples: {kind.__name__} finds no event in any of them")


def check_truncated(kind: type[Decoder], value: bytes) -> None:
    """A record of which only the head was read is refused."""
    refused = isinstance(_decode(kind(), value, truncated=10**8), str)
    _require(refused, f"law of truncation: {kind.__name__} reads the head of a record; call record.check_whole() first")


def check_any_bytes(kind: type[Decoder], value: bytes, *, strict_keys: bool = True) -> None:
    """Any bytes give events or DecodeError. The same bytes give the same again, also in a new process."""
    decoder = kind(strict_keys=strict_keys)
    first = _decode(decoder, value)
    _require(first != "", f"law of reasons: {kind.__name__} refuses {value!r} without a reason")
    _require(_decode(decoder, value) == first, f"law of redelivery: {kind.__name__} reads {value!r} differently again")
    fresh = kind(strict_keys=strict_keys)
    _require(_decode(fresh, value) == first, f"law of redelivery: another {kind.__name__} reads {value!r} differently")
    for event in first if isinstance(first, list) else ():
        _require(event.session_id, f"law of ids: an event of {value!r} has no session_id")
        _require(event.event_id, f"law of ids: an event of {value!r} has no event_id")
        _require(event.time is None or event.time >= 0, f"law of time: an event of {value!r} is before 1970")


def damaged(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy for samples with fields that should not be there, and with bytes that were hit."""
    return _damaged(list(samples))


@st.composite
def _damaged(draw: Callable[..., Any], samples: list[bytes]) -> bytes:
    sample: bytes = draw(st.sampled_from(samples))
    try:
        data = json.loads(sample)
    except ValueError:  # a sample need not be JSON
        data = None
    if isinstance(data, dict) and data:
        for field in draw(st.lists(st.sampled_from(sorted(data)), max_size=2)):
            data[field] = draw(JSON_VALUES)
        sample = json.dumps(data).encode()
    value = bytearray(sample)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(value)))
        value[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(value)


def _require(kept: object, law: str) -> None:
    if not kept:
        raise AssertionError(law)


def _decode(decoder: Decoder, value: bytes, truncated: int = 0) -> list[Event] | str:
    try:
        return list(decoder.decode(Record(value, "file", 0, 1, truncated=truncated)))
    except DecodeError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"law of refusal: {value!r} raises {error!r}; raise DecodeError, nothing else") from error
