"""How far a batch of a topic may unpack: it is in memory as a whole, and a few kilobytes can become gigabytes.

The clients unpack a batch in one piece, however large. So it is unpacked here instead, up to the limit. A batch of
snappy says how large its blocks become; where that is not too much, the client unpacks it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from io import BytesIO
from threading import local
from types import ModuleType
from typing import Any, Final

from stream_guard.ports import Record

MAX_UNPACKED: Final = 64 << 20
"""Bytes that one batch may become; the brokers' default for a batch as it is sent is 1 MB."""

MAX_WINDOW: Final = 128 << 20  # bytes that Zstandard may look back: what its highest level uses
_PIECE: Final = 1 << 20
_XERIAL: Final = b"\x82SNAPPY\x00"  # and two numbers: the framing of Java's clients
_XERIAL_HEAD: Final = 16
_BOUNDED: Final = "stream_guard_bounded"


class _Unpacked(local):
    """What this thread unpacked last."""

    size: int = 0


UNPACKED: Final = _Unpacked()


class UnpackError(ValueError):
    """A batch is not what it says, or unpacks to more than it may."""


def bound_codecs(module: ModuleType) -> None:
    """Have a client's module unpack within the limit; AttributeError where it has no such functions."""
    for name, check in _BOUNDED_CODECS.items():
        decode = getattr(module, f"{name}_decode", None)
        if decode is None and name == "zstd":
            continue  # batches of the old format are never packed so
        if decode is None:
            raise AttributeError(f"{module.__name__} has no {name}_decode: it is not the client that this was made for")
        if not hasattr(decode, _BOUNDED):
            setattr(module, f"{name}_decode", _bounded(check, decode))


def _bounded(check: Callable[[bytes], bytes | None], decode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    @wraps(decode)
    def unpack(payload: Any) -> bytes:
        found = check(payload if isinstance(payload, bytes) else bytes(payload))
        if found is None:
            found = decode(payload)
        UNPACKED.size = len(found)
        return found

    setattr(unpack, _BOUNDED, True)
    return unpack


def unpack_gzip(packed: bytes) -> bytes:
    """Return what was packed with gzip; UnpackError where it is too much, or cut off."""
    return _unpack_members(lambda: zlib.decompressobj(wbits=31), packed)


def unpack_lz4(packed: bytes) -> bytes:
    """Return what was packed with LZ4; UnpackError where it is too much, or cut off."""
    from lz4.frame import LZ4FrameDecompressor  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

    return _unpack_members(LZ4FrameDecompressor, packed)


def _unpack_members(make: Callable[[], Any], packed: bytes) -> bytes:
    """Unpack one member or frame after the other."""
    found, left = list[bytes](), MAX_UNPACKED
    while packed:
        unpacker = make()
        piece = unpacker.decompress(packed, left + 1)
        left -= len(piece)
        if left < 0:
            raise _too_much()
        if not unpacker.eof:
            raise UnpackError("it ends too early")
        found.append(piece)
        packed = unpacker.unused_data
    return b"".join(found)


def unpack_zstandard(packed: bytes) -> bytes:
    """Return what was packed with Zstandard; UnpackError where it is too much."""
    from zstandard import ZstdDecompressor  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

    found, left = list[bytes](), MAX_UNPACKED
    reader = ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(BytesIO(packed), read_across_frames=True)
    while piece := reader.read(_PIECE):
        left -= len(piece)
        if left < 0:
            raise _too_much()
        found.append(piece)
    return b"".join(found)


def check_snappy(packed: bytes) -> None:
    """Raise UnpackError where the blocks say that they have too much: the client asks for as much memory for each."""
    if sum(_snappy_sizes(packed)) > MAX_UNPACKED:
        raise _too_much()


def _snappy_sizes(packed: bytes) -> Iterator[int]:
    """Yield the sizes of the blocks, or of the only one, as they say."""
    if not packed.startswith(_XERIAL):
        yield _varint(packed, 0)
        return
    at = _XERIAL_HEAD
    while at < len(packed):
        yield _varint(packed, at + 4)
        at += 4 + int.from_bytes(packed[at : at + 4], "big")


def _varint(packed: bytes, at: int) -> int:
    found = 0
    for place, byte in enumerate(packed[at : at + 5]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return found
    raise UnpackError("a block without its size")


def _too_much() -> UnpackError:
    return UnpackError(f"it unpacks to more than {MAX_UNPACKED} bytes")


_BOUNDED_CODECS: Final[dict[str, Callable[[bytes], bytes | None]]] = {
    "gzip": unpack_gzip,
    "snappy": check_snappy,
    "lz4": unpack_lz4,
    "zstd": unpack_zstandard,
}


# Batches of a topic that cannot be unpacked, or not read: one record with the reason stands for what is left of them.
#
# Whoever writes to a topic could else stop every reader at the same offset for ever. A broker looks at the heads of
# records only, so a name of a header that is no text gets through it.

BUDGET: Final = 128 << 20  # bytes of packed batches that one fetch may unpack, but for the last of them
_OURS: Final = (
    "UnsupportedCodecError",
    "UnsupportedCompressionTypeError",
    "ModuleNotFoundError",
)  # a package is missing: no fault of the batch


class PoisonedBatch(bytes):
    """The value of the record that stands for a batch; empty. No producer can send one."""

    reason: str
    first: int
    size: int

    @classmethod
    def of(cls, batch: Any, error: Exception) -> PoisonedBatch:
        """Return the value for what is left of a batch."""
        made = cls()
        last = batch.next_offset - 1
        made.first = getattr(batch, "base_offset", last)
        made.size = max(1, getattr(batch, "size_in_bytes", 1))
        made.reason = (
            f"the batch of offsets {made.first} to {last} cannot be read: {error}; its records are lost: have its "
            "producer send them again in smaller batches"
        )
        return made


class _PoisonRecord:
    """What a client's reader takes from a record."""

    __slots__ = ("offset", "timestamp", "value")

    key = None
    headers: tuple[()] = ()
    checksum = None
    timestamp_type = 0
    size_in_bytes = 0

    def __init__(self, batch: Any, error: Exception) -> None:
        self.offset = batch.next_offset - 1  # of the last: where it was read, the whole batch was
        self.timestamp = getattr(batch, "max_timestamp", -1)
        self.value = PoisonedBatch.of(batch, error)

    def validate_crc(self) -> bool:
        """Say that it is what was sent."""
        return True


class UnpackBudget:
    """How much a fetch may still unpack."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = BUDGET

    def renew(self) -> None:
        """Begin another fetch."""
        self.left = BUDGET


class GuardedBatch:
    """A client's batch, which ends with a record that stands for the rest where that cannot be read."""

    __slots__ = ("_batch", "_budget")

    def __init__(self, batch: Any, budget: UnpackBudget) -> None:
        self._batch = batch
        self._budget = budget

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        try:
            UNPACKED.size = 0
            records = iter(self._batch)  # here it is unpacked
            self._budget.left -= UNPACKED.size
            yield from records
        except Exception as error:
            if type(error).__name__ in _OURS:
                raise
            yield _PoisonRecord(self._batch, error)


class GuardedRecords:
    """A client's batches of one partition, each guarded. They end early where a fetch has unpacked enough.

    The client then fetches again from the batch that it did not get.
    """

    __slots__ = ("_budget", "_records")

    def __init__(self, records: Any, budget: UnpackBudget) -> None:
        self._records = records
        self._budget = budget

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def has_next(self) -> bool:
        """Whether there is another batch, and room for it."""
        return self._budget.left > 0 and bool(self._records.has_next())

    def next_batch(self) -> Any:
        """Return the next batch; None where there is none."""
        if not self.has_next():
            return None
        batch = self._records.next_batch()
        return (
            batch if batch is None or getattr(batch, "is_control_batch", False) else GuardedBatch(batch, self._budget)
        )


def make_record(fetched: Any, origin: str, limit: int, head: int, time: float | None = None) -> Record:
    """Return our record of a client's: cut to its head over the limit, and without content for a poisoned batch."""
    value, headers = fetched.value or b"", fetched.headers  # a tombstone has no value
    ours = tuple((name, content or b"") for name, content in headers) if headers else ()
    size = len(value)
    if not size and type(fetched.value) is PoisonedBatch:
        batch = fetched.value
        return Record(b"", origin, fetched.offset, truncated=batch.size, problem=batch.reason)
    if size <= limit:
        return Record(value, origin, fetched.offset, 0, fetched.key, ours, 0, time)
    return Record(value[:head], origin, fetched.offset, 0, fetched.key, ours, size, time)
