"""Records as text: JSON in ASCII, with all text of agents escaped."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from stream_guard.errors import StoreError

Record = TypeVar("Record", bound=msgspec.Struct)


class AnswerRefusedError(StoreError):
    """A person's answer to a review or an incident is refused; ``missing``: there is none of that id."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


def to_text(value: msgspec.Struct) -> str:
    """Return a record as text that every database can store."""
    # A plugin's evidence may hold any object: its repr is better than no record.
    return json.dumps(msgspec.to_builtins(value, enc_hook=repr))


def from_text(text: str, record: type[Record]) -> Record:
    """Return the record that ``to_text`` wrote."""
    # Not msgspec's JSON decoder: it refuses lone surrogates, which callers in this process may use.
    return msgspec.convert(json.loads(text), record)
