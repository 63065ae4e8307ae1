"""Records out of plain batches, as a broker sends them: without compression, transactions and markers.

Nearly all batches are plain. In the compiled build plain_batches.c is here instead: it checks a batch and makes its
records in one pass, without the client's objects between. The client reads what is not plain, and what is damaged.
"""

from __future__ import annotations

from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from stream_guard.ports import Record
from stream_guard.worker.fetched_records import make_record


def unpack_plain(data: bytes, start: int, origin: str, limit: int, head: int) -> tuple[list[Record], int] | None:
    """Return the records from an offset on, and the offset behind the last batch; None for the client to read them.

    A record over the limit is cut to its head. The last batch may be incomplete, and is left out then.
    """
    batches: Any = MemoryRecords(data)
    found: list[Record] = []
    try:
        while batches.has_next():
            batch = batches.next_batch()
            if not _is_plain(batch):
                return None
            for record in batch:
                if record.offset >= start:
                    found.append(make_record(record, origin, limit, head))
                    start = record.offset + 1
            start = batch.next_offset
    except (CorruptRecordException, ValueError):
        return None
    return found, start


def _is_plain(batch: Any) -> bool:
    if batch.producer_id is None:  # of a version that none has written for years
        return False
    special = batch.compression_type or batch.is_transactional or batch.is_control_batch
    return not special and bool(batch.validate_crc())
