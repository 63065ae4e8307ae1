"""What is no longer remembered one by one: sketches, and the sessions that were closed for want of room.

A sketch never denies what it was given. It may claim what it was not given, the more often the fuller it is. So whoever
stops what a sketch claims errs to the safe side, and nobody gets past it by filling it.

A session may be closed while rules that stop still remember something of it. What such a rule knew is gone, and that it
knew something is not: when the session comes back, calls that the rule judges by its memory are unevaluable. A session
that is back after its idle time begins anew, as it would have done. Ids are kept in sketches, one series for each
tenant, so that a flood fills nobody's but its own (docs/adr/0028).
"""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec
import xxhash

from stream_guard.judge.model import RESERVED, resolved
from stream_guard.judge.ports import Store

_MARKS: Final = 3  # bits that one number sets


@resolved
class Sketch(msgspec.Struct, array_like=True, gc=False):
    """Numbers of 56 bits or more, such as digests, that were seen (a Bloom filter). It is empty until one comes."""

    bits: bytearray = bytearray()

    def add(self, number: int, size: int) -> None:
        """Take a number in; an empty sketch gets ``size`` bytes, and keeps that size."""
        bits = self.bits
        if not bits:
            bits.extend(bytes(size))
        count, step = 8 * len(bits), number >> 20 | 1
        for _ in range(_MARKS):
            place = number % count
            bits[place >> 3] |= 1 << (place & 7)
            number += step

    def __contains__(self, number: int) -> bool:
        bits = self.bits
        if not bits:
            return False
        count, step = 8 * len(bits), number >> 20 | 1
        for _ in range(_MARKS):
            place = number % count
            if not bits[place >> 3] & 1 << (place & 7):
                return False
            number += step
        return True

    def take_in(self, other: Sketch) -> None:
        """Take in everything that another sketch of the same size was given."""
        mine = int.from_bytes(self.bits, "little") | int.from_bytes(other.bits, "little")
        self.bits[:] = mine.to_bytes(len(self.bits), "little")


def sketch_number(text: str) -> int:
    """Return the number of a text for a sketch."""
    return int(xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")))


_PREFIX: Final = f"{RESERVED}forgotten{RESERVED}"
_BYTES: Final = 2**16
_FULL: Final = 40_000  # ids in one sketch: one new session in 100 would be taken for one of them
_OTHERS: Final = RESERVED  # where the ids of tenants go that have no series of their own
_MOST_SERIES: Final = 256
_MOST: Final = 8  # sketches of one tenant; beyond, the two oldest become one


def is_forgotten_row(name: str) -> bool:
    """Whether a row of a store tells of forgotten sessions, and is not a session itself."""
    return name.startswith(_PREFIX)


@resolved
class ForgottenIds(msgspec.Struct, array_like=True, gc=False):
    """Ids of sessions that were forgotten one after the other, and the latest time in any of them."""

    number: int  # of the sketch in its series
    count: int = 0
    latest: float = -inf
    sketch: Sketch = msgspec.field(default_factory=Sketch)


class ForgottenSessions:
    """Which sessions were forgotten, by tenant, in a store and in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.expired = -inf  # sessions whose last event is not after this begin anew, if they come back at all
        self._series: dict[str, list[ForgottenIds]] = {}
        self._changed: dict[str, ForgottenIds] = {}
        for name in [name for name, _ in store.deadlines() if is_forgotten_row(name)]:
            blob = store.get(name)
            tenant = name[len(_PREFIX) :].partition(RESERVED)[2]
            if blob is not None:
                self._series.setdefault(tenant, []).append(msgspec.msgpack.decode(blob, type=ForgottenIds))
        for series in self._series.values():
            series.sort(key=lambda one: one.number)

    def __bool__(self) -> bool:
        return bool(self._series)

    def add(self, tenant: str, session_id: str, last: float) -> None:
        """Note that a session was forgotten whose last event came at ``last``; minus infinity: none had a time."""
        if tenant not in self._series and len(self._series) >= _MOST_SERIES:
            tenant = _OTHERS
        series = self._series.setdefault(tenant, [])
        if not series or series[-1].count >= _FULL:
            number = series[-1].number + 1 if series else 0
            self._drop_expired()
            series = self._series.setdefault(tenant, [])
            series.append(ForgottenIds(number))
            self._join_oldest(tenant, series)
        newest = series[-1]
        newest.sketch.add(sketch_number(session_id), _BYTES)
        newest.count += 1
        newest.latest = max(newest.latest, last if last > -inf else inf)  # without times it is never idle
        row = _row(tenant, newest)
        if row not in self._changed:
            # At once, although `flush` writes it again: no store may write the end of the session before this.
            self._store.put(row, msgspec.msgpack.encode(newest), None)
            self._changed[row] = newest

    def has(self, tenant: str, session_id: str, time: float | None, idle: float) -> bool:
        """Whether a session was forgotten that an event at ``time`` goes on with."""
        number = 0
        for one in (*self._series.get(tenant, ()), *self._series.get(_OTHERS, ())):
            if time is None or time - one.latest < idle:
                number = number or sketch_number(session_id)
                if number in one.sketch:
                    return True
        return False

    def flush(self) -> None:
        """Put what has changed into the store."""
        for name, one in self._changed.items():
            self._store.put(name, msgspec.msgpack.encode(one), None)
        self._changed.clear()

    def _drop_expired(self) -> None:
        for tenant, series in list(self._series.items()):
            for one in [one for one in series if one.latest <= self.expired]:
                series.remove(one)
                self._drop_row(tenant, one)
            if not series:
                del self._series[tenant]

    def _join_oldest(self, tenant: str, series: list[ForgottenIds]) -> None:
        """Let the two oldest sketches be one: it claims more than they did, and denies nothing."""
        if len(series) > _MOST:
            oldest, next_oldest = series[0], series[1]
            next_oldest.sketch.take_in(oldest.sketch)
            next_oldest.latest = max(oldest.latest, next_oldest.latest)
            self._changed[_row(tenant, next_oldest)] = next_oldest
            self._drop_row(tenant, series.pop(0))

    def _drop_row(self, tenant: str, one: ForgottenIds) -> None:
        self._changed.pop(_row(tenant, one), None)
        self._store.drop(_row(tenant, one))


def _row(tenant: str, one: ForgottenIds) -> str:
    return f"{_PREFIX}{one.number}{RESERVED}{tenant}"


def renumbered(name: str, blob: bytes, factor: int, shift: int) -> tuple[str, bytes]:
    """Return a row under a number of its own among those of ``factor`` stores that become one."""
    one = msgspec.msgpack.decode(blob, type=ForgottenIds)
    one.number = one.number * factor + shift
    return _row(name[len(_PREFIX) :].partition(RESERVED)[2], one), msgspec.msgpack.encode(one)
