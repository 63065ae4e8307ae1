"""Dead letters in a topic: the record as it came; its headers give the reason and the origin."""

from __future__ import annotations

from typing import Final

from stream_guard.decoding.dead_letters import HEAD, DeadLetters
from stream_guard.errors import SinkError, StoreError
from stream_guard.judge.counts import Counts, DeadLetterClass
from stream_guard.kafka.writer import Outgoing, TopicWriter
from stream_guard.ports import Record

REASON: Final = "stream_guard_reason"
CLASS: Final = "stream_guard_class"
ORIGIN: Final = "stream_guard_origin"  # topic/partition, or a file
OFFSET: Final = "stream_guard_offset"
SIZE: Final = "stream_guard_size"  # of the whole record, where the letter holds only its head

_WAITING: Final = 256  # letters sent together


class KafkaDeadLetters(DeadLetters):
    """Keeps dead letters in a topic; the broker has acknowledged all of them when ``flush`` returns.

    Key and headers stay as they were. A record that is too large for the topic is sent as its head. A letter that
    is sent again after a crash has the same origin and offset as before.
    """

    def __init__(self, writer: TopicWriter, counts: Counts, *, format_name: str) -> None:
        super().__init__(None, counts, format_name=format_name)
        self._writer = writer
        self.is_kept = True
        self._unsent: list[Outgoing] = []

    def _keep(self, record: Record, reason: str, about: DeadLetterClass) -> None:
        self._unsent.append(_letter(record, reason, about))
        if len(self._unsent) >= _WAITING:
            self.flush()

    def flush(self) -> int:
        """Have all letters acknowledged; there is no position to come back to."""
        try:
            self._writer.send(self._unsent)
        except SinkError as error:
            if error.retryable:
                raise _explain(error) from error
            self._send_cut()
        self._unsent.clear()
        return 0

    def close(self) -> None:
        """Flush, and leave the cluster."""
        try:
            self.flush()
        finally:
            self._writer.close()

    def _send_cut(self) -> None:
        """Send the letters one by one; one that is refused may be too large, and is sent again as its head."""
        for letter in self._unsent:
            try:
                self._send_one(letter)
            except SinkError as error:
                raise _explain(error) from error

    def _send_one(self, letter: Outgoing) -> None:
        try:
            self._writer.send([letter])
        except SinkError as error:
            if error.retryable or len(letter.value) <= HEAD:
                raise
            size = (SIZE, str(len(letter.value)).encode())
            self._writer.send([letter._replace(value=letter.value[:HEAD], headers=(*letter.headers, size))])


def _letter(record: Record, reason: str, about: DeadLetterClass) -> Outgoing:
    headers = [
        (REASON, reason.encode("utf-8", "replace")),
        (CLASS, about.encode()),
        (ORIGIN, record.origin.encode("utf-8", "replace")),
        (OFFSET, str(record.position).encode()),
    ]
    if record.truncated:
        headers.append((SIZE, str(record.truncated).encode()))
    return Outgoing(record.key, record.value, (*record.headers, *headers))


def _explain(error: SinkError) -> StoreError:
    return StoreError(f"dead letters cannot be written: {error}; nothing is read until they can")
