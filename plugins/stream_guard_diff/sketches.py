"""Texts as sets of four-letter pieces: how alike two are, exactly for a pair and estimated for a row of many."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

GRAM: Final = 4
LANES: Final = 64  # estimates are within about a sixteenth: enough to find partners, whose likeness is then exact

Grams = NDArray[np.uint64]

_SEED: Final = np.random.default_rng(20260131)  # fixed: the same recordings align the same way every time
_FACTORS: Final = _SEED.integers(1, 2**63, LANES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_NONE: Final = np.array([], dtype=np.uint64)


def grams_of(text: str) -> Grams:
    """Return the distinct pieces of a text, sorted; white space counts as one space, a short text as one piece."""
    collapsed = " ".join(text.split())
    if not collapsed:
        return _NONE
    letters = np.frombuffer(collapsed.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    if len(letters) < GRAM:
        letters = np.concatenate([letters, np.full(GRAM - len(letters), 0x110000, dtype=np.uint64)])
    count = len(letters) - GRAM + 1
    packed = np.zeros(count, dtype=np.uint64)
    for offset in range(GRAM):
        packed = (packed ^ letters[offset : offset + count]) * _MIX
        packed ^= packed >> np.uint64(29)
    # By hand: np.unique asks more questions than a short text has pieces.
    packed.sort()
    distinct = np.empty(count, dtype=np.bool_)
    distinct[0] = True
    np.not_equal(packed[1:], packed[:-1], out=distinct[1:])
    return packed[distinct]


def likeness(old: Grams, new: Grams) -> float:
    """Return the share of pieces that both have (Jaccard); two empty texts are alike."""
    if len(old) == len(new) and np.array_equal(old, new):
        return 1.0
    if not len(old) or not len(new):
        return 0.0
    shared = len(np.intersect1d(old, new, assume_unique=True))
    return shared / (len(old) + len(new) - shared)


def sketch(grams: Grams) -> NDArray[np.uint16]:
    """Return a sketch (MinHash): of two sketches, as many lanes agree as the likeness of the texts says."""
    lanes = np.zeros(LANES, dtype=np.uint16)
    if not len(grams):
        return lanes
    if len(grams) < 4096:
        least = (grams[None, :] * _FACTORS[:, None]).min(axis=1)
    else:  # lane by lane: a megabyte of text must not become sixty-four
        least = np.array([(grams * factor).min() for factor in _FACTORS])
    # The low bits of a least value are random; the high ones are nearly always zero. Zero means "no text".
    lanes[:] = ((least * _MIX) >> np.uint64(48)).astype(np.uint16) | np.uint16(1)
    return lanes
