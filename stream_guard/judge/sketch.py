"""Sketches: whether something was seen, in memory that does not grow.

A sketch never denies what it was given. It may claim what it was not given, the more often the fuller it is. So whoever
stops what a sketch claims errs to the safe side, and nobody gets past it by filling it.
"""

from __future__ import annotations

from typing import Final

import msgspec
import xxhash

from stream_guard.judge.model import resolved

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
