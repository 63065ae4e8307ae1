"""The ids of a session's last events, with digests of what they stood for.

Ids are digests too, in memory as in a stored session: what is kept of an event leaves the cache, and is slow to free.
All digests of a session have its own seed, drawn at random and stored with them: whoever could compute them could make
a call that is taken for another one, and dropped as told before.
"""

from __future__ import annotations

from array import array
from itertools import islice
from secrets import randbits
from typing import Final

import xxhash

_hash: Final = xxhash.xxh3_64_intdigest


class SeenIds:
    """The last event ids in two generations: the older one is forgotten when the other is full."""

    __slots__ = ("_older", "_recent", "seed")

    def __init__(self) -> None:
        self.seed = randbits(64)
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}

    def add(self, event_id: str, content: int, most: int, /) -> bool:
        """Remember what an id stands for; False: it is known, and nothing changes. ``most`` fill a generation."""
        key, recent = _digest(event_id, self.seed), self._recent
        if key in recent or key in self._older:
            return False
        recent[key] = content
        if len(recent) >= most:
            self._older, self._recent = recent, {}
        return True

    def content(self, event_id: str, /) -> int | None:
        """Return the digest of what an id stands for; 0 where an earlier version kept none, None for a new id."""
        key = _digest(event_id, self.seed)
        known = self._recent.get(key)
        return known if known is not None else self._older.get(key)

    def stored(self) -> tuple[bytes, bytes, bytes]:
        """Return the ids of both generations, and the contents in the same order and the seed: each of 64 bits."""
        recent, older = self._recent, self._older
        contents = array("Q", [*recent.values(), *older.values(), self.seed])
        return array("Q", recent).tobytes(), array("Q", older).tobytes(), contents.tobytes()

    def mark(self) -> tuple[dict[int, int], int]:
        """Return what ``since`` takes to tell which ids came after this."""
        return self._recent, len(self._recent)

    def since(self, mark: tuple[dict[int, int], int], /) -> tuple[bytes, bytes, bytes] | None:
        """Return the ids that came after a mark, as ``stored`` would; None where that cannot be told."""
        generation, known = mark
        if generation is not self._recent or not self.seed:  # an earlier version stored no contents
            return None
        fresh = list(islice(generation.items(), known, None))
        return array("Q", [key for key, _ in fresh]).tobytes(), b"", array("Q", [value for _, value in fresh]).tobytes()

    def restore(self, recent: bytes, older: bytes, contents: bytes, /) -> None:
        """Know what was stored, and nothing else; earlier versions kept no seed, or no contents."""
        keys, older_keys, values = array("Q", recent), array("Q", older), array("Q", contents)
        known = len(keys) + len(older_keys)
        self.seed = values.pop() if len(values) == known + 1 else 0
        if len(values) != known:
            values = array("Q", bytes(len(recent) + len(older)))
        self._recent = dict(zip(keys, values, strict=False))
        self._older = dict(zip(older_keys, values[len(keys) :], strict=True))


def _digest(event_id: str, seed: int) -> int:
    try:
        return _hash(event_id.encode(), seed)
    except UnicodeEncodeError:  # half of a surrogate pair, from a caller in this process
        return _hash(event_id.encode("utf-8", "surrogatepass"), seed)
