"""A row of a table as the bytes of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from stream_guard.sources.splitting import HEAD

_encode = msgspec.json.Encoder().encode


class WrittenRow(NamedTuple):
    """What a record gets of a row."""

    value: bytes
    key: bytes | None
    truncated: int  # the true size where only the head is kept; else 0


def written_row(row: Mapping[str, Any], limit: int) -> WrittenRow:
    """Return a row as bytes, up to a limit.

    A row with a text or bytes in the column ``value`` is from a dump of a topic: that value is the record, with the
    column ``key`` as its key. Any other row is a record itself, as a JSON object without the columns that are null.
    """
    value, key = row.get("value"), row.get("key")
    found_key = None
    if isinstance(value, str | bytes):
        written = value.encode() if isinstance(value, str) else value
        found_key = key.encode() if isinstance(key, str) else key if isinstance(key, bytes) else None
    else:
        written = _encode({name: item for name, item in row.items() if item is not None})
    size = len(written)
    return (
        WrittenRow(written[: min(HEAD, limit)], found_key, size) if size > limit else WrittenRow(written, found_key, 0)
    )
