"""Records as text: JSON in ASCII, with everything that an agent wrote escaped."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from stream_guard.errors import StoreError

Record = TypeVar("Record", bound=msgspec.Struct)


class AnswerRefusedError(StoreError):
    """A person's answer cannot be taken; ``missing`` says that there is nothing of that id."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


def to_text(value: msgspec.Struct) -> str:
    """Return a record as every database can store it."""
    # A plugin's evidence may hold anything: an odd record is better than none.
    return json.dumps(msgspec.to_builtins(value, enc_hook=repr))


def from_text(text: str, record: type[Record]) -> Record:
    """Return what ``to_text`` wrote."""
    # Not msgspec's own reader: it refuses halves of surrogate pairs, which callers in this process may use.
    return msgspec.convert(json.loads(text), record)
