"""Batches of a topic that cannot be unpacked, or not read: one record with the reason stands for what is left of them.

Whoever writes to a topic could else stop every reader at the same offset for ever. A broker looks at the heads of
records only, so a name of a header that is no text gets through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from stream_guard.kafka.unpacking import UNPACKED
from stream_guard.ports import Record

BUDGET: Final = 128 << 20  # bytes of packed batches that one fetch may unpack, but for the last of them
_OURS: Final = (
    "UnsupportedCodecError",
    "UnsupportedCompressionTypeError",
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


def poisoned_record(batch: PoisonedBatch, origin: str, offset: int) -> Record:
    """Return our record for a batch that cannot be read."""
    return Record(b"", origin, offset, truncated=batch.size, problem=batch.reason)
