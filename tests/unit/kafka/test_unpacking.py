"""Batches that unpack too far, or cannot be read: one record with the reason, and the batches behind them are read."""

from __future__ import annotations

import gzip
import struct
import sys
import tracemalloc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard
from aiokafka.record import default_records as aio_records
from aiokafka.record.memory_records import MemoryRecords as AioMemoryRecords
from hypothesis import given
from hypothesis import strategies as st
from kafka.codec import lz4_encode, snappy_encode
from kafka.record import default_records as plain_records
from kafka.record.memory_records import MemoryRecords as PlainMemoryRecords

from stream_guard.kafka.unpacking import (
    BUDGET,
    GuardedRecords,
    PoisonedBatch,
    UnpackBudget,
    UnpackError,
    bound_codecs,
    check_snappy,
    unpack_gzip,
    unpack_lz4,
    unpack_zstandard,
)

MB = 1 << 20
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CLIENTS: dict[str, tuple[ModuleType, Any]] = {
    "kafka-python": (plain_records, PlainMemoryRecords),
    "aiokafka": (sys.modules[aio_records.DefaultRecordBatch.__module__], AioMemoryRecords),
}


def _streamed(data: bytes) -> bytes:
    """Pack without telling the size, and end a block often."""
    packer = zstandard.ZstdCompressor(level=1, write_content_size=False, write_checksum=True).compressobj()
    pieces = [data[at : at + 1000] for at in range(0, len(data), 1000)]
    packed = [packer.compress(piece) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for piece in pieces[:2000]]
    return b"".join((*packed, packer.compress(b"".join(pieces[2000:])), packer.flush()))


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "snappy": snappy_encode,
    "snappy of one block": snappy.compress,
    "lz4": lz4_encode,
    "lz4 with its size": lambda data: bytes(lz4.frame.compress(data, store_size=True, content_checksum=True)),
    "lz4 linked": lambda data: bytes(
        lz4.frame.compress(data, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    ),
    "zstd": lambda data: zstandard.ZstdCompressor(level=3).compress(data),
    "zstd streamed": _streamed,
    "lz4 of two frames": lambda data: bytes(lz4.frame.compress(data[:100]) + lz4.frame.compress(data[100:])),
    "zstd of two frames": lambda data: zstandard.compress(data[:100]) + zstandard.compress(data[100:]),
}
UNPACK: dict[str, Callable[[bytes], bytes | None]] = {
    "gzip": unpack_gzip,
    "snappy": check_snappy,  # which says nothing where the client may unpack
    "lz4": unpack_lz4,
    "zstd": unpack_zstandard,
}


def batch_of(codec: str, values: list[bytes], base: int = 0, header: bytes = b"h") -> bytes:
    """Return a batch as a producer would write it; the broker sets its first offset."""
    builder = plain_records.DefaultRecordBatchBuilder(2, CODECS[codec], False, -1, -1, -1, 1 << 31)
    for number, value in enumerate(values):
        builder.append(number, 1_767_600_000_000, b"k", value, [(header.decode("latin-1"), b"x")])
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, base)
    return bytes(built)


def read(client: str, data: bytes, budget: UnpackBudget | None = None) -> list[Any]:
    module, records = CLIENTS[client]
    bound_codecs(module)
    guarded, found = GuardedRecords(records(data), budget or UnpackBudget()), list[Any]()
    while guarded.has_next():
        found += guarded.next_batch()
    return found


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("size", [1, 100, 70_000, 3 * MB])
def test_honest_data_of_every_codec_passes(pack: str, size: int) -> None:
    data = (b"abc %d " % size) * (size // 6 + 1)
    assert UNPACK[pack.split(maxsplit=1)[0]](PACK[pack](data)) in (None, data)


@given(st.sampled_from(sorted(PACK)), st.binary(max_size=5000))
def test_whatever_was_packed_passes(pack: str, data: bytes) -> None:
    if pack != "snappy":  # an empty batch has no block
        assert UNPACK[pack.split(maxsplit=1)[0]](PACK[pack](data)) in (None, data)


@pytest.mark.parametrize("pack", PACK)
def test_what_unpacks_too_far_is_refused_and_is_never_in_memory(pack: str) -> None:
    packed = PACK[pack](bytes(80 * MB))
    tracemalloc.start()
    with pytest.raises(UnpackError, match="more than 67108864 bytes"):
        UNPACK[pack.split(maxsplit=1)[0]](packed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 * MB  # it is unpacked up to the limit, and that twice for a moment


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("snappy", b"\xff\xff\xff\xff\x0f" + b"\x00" * 20),
        ("snappy", b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00\x00\x08" + b"\xff\xff\xff\xff\x0f" + b"\x00" * 3),
        ("lz4", struct.pack("<IBBQB", 0x184D2204, 0x68, 0x70, 1 << 60, 0) + bytes(4)),
        ("lz4", b"no frame at all"),
        ("zstd", b"no frame at all"),
        ("gzip", gzip.compress(b"cut off", mtime=0)[:-9]),
    ],
)
def test_sizes_that_lie_are_refused_before_memory_is_asked_for(codec: str, packed: bytes) -> None:
    tracemalloc.start()
    with pytest.raises((UnpackError, ValueError, RuntimeError, zstandard.ZstdError)):
        UNPACK[codec](packed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 70 * MB


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_unpacks_too_far_is_one_record_and_the_others_are_read(client: str, codec: str) -> None:
    before, behind = batch_of(codec, [b"one", b"two"]), batch_of(codec, [b"last"], 22)
    poison = batch_of(codec, [bytes(4 * MB)] * 20, 2)
    found = read(client, before + poison + behind)
    assert [record.offset for record in found] == [0, 1, 21, 22]
    assert [record.value for record in found] == [b"one", b"two", b"", b"last"]
    value = found[2].value
    assert type(value) is PoisonedBatch
    assert value.first == 2
    assert "offsets 2 to 21 cannot be read: it unpacks to more than" in value.reason


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_is_not_what_it_says_is_one_record(client: str, codec: str) -> None:
    broken = bytearray(batch_of(codec, [b"one" * 100, b"two" * 100]))
    broken[61:] = b"\x07" * (len(broken) - 61)  # behind the head of the batch
    found = read(client, bytes(broken) + batch_of(codec, [b"last"], 2))
    assert [record.offset for record in found] == [1, 2]
    assert type(found[0].value) is PoisonedBatch
    assert found[1].value == b"last"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_header_whose_name_is_no_text_stops_nobody(client: str) -> None:
    batch = batch_of("gzip", [b"one" * 100])
    plain = bytearray(gzip.decompress(batch[61:]))
    plain[plain.index(b"h")] = 0xFF
    broken = batch[:61] + gzip.compress(bytes(plain))
    broken = broken[:8] + struct.pack(">i", len(broken) - 12) + broken[12:]
    found = read(client, broken + batch_of("gzip", [b"last"], 1))
    assert [record.offset for record in found] == [0, 1]
    assert type(found[0].value) is PoisonedBatch


@pytest.mark.long
@pytest.mark.parametrize("client", CLIENTS)
def test_many_batches_within_the_limit_are_not_unpacked_in_one_fetch(client: str) -> None:
    data = b"".join(batch_of("zstd", [bytes(40 * MB)], number) for number in range(6))
    budget = UnpackBudget()
    first = read(client, data, budget)
    assert len(first) == 4  # the fourth begins within the budget
    assert sum(len(record.value) for record in first) <= BUDGET + 40 * MB
    assert read(client, data, budget) == []
    budget.renew()
    assert len(read(client, data, budget)) == 4


def test_another_client_than_the_known_ones_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no gzip_decode"):
        bound_codecs(ModuleType("other"))
