"""The worker's inner loop: records that no session has seen, under the keys of their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard.decoding.reader import EventReader, blocks_of
from stream_guard.decoding.tenants import BETWEEN
from stream_guard.model import Finding
from stream_guard.ports import Record
from stream_guard.sessions.table import SessionTable

_BETWEEN: Final = BETWEEN.encode()


def judge_records(
    records: Sequence[Record], reader: EventReader, table: SessionTable, out: list[Finding], *, has_tenants: bool
) -> int:
    """Judge the events of new records; return how many have a session whose id is not the key of their record."""
    foreign = 0
    for block in blocks_of(list(records)):
        quick = reader.read_ahead(block)
        for number, record in enumerate(block):
            plain = None if quick is None else quick[number]
            for event in reader.read(record) if plain is None else (plain,):
                if record.key is not None and not is_key_of(record.key, event.session_id, has_tenants=has_tenants):
                    foreign += 1
                table.feed(event, out)
    return foreign


def is_key_of(key: bytes, session_id: str, *, has_tenants: bool) -> bool:
    """Whether a record's key is its session's id, as producers know it or with the tenant before it."""
    name = session_id.encode() if session_id.isascii() else session_id.encode("utf-8", "surrogatepass")
    return name == key or (has_tenants and name.endswith(_BETWEEN + key))
