"""Records as text: JSON in ASCII, with all text of agents escaped.

In canonical JSON equal values have equal digests, wherever they were written.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TypeVar

import msgspec
import rfc8785

from stream_guard.errors import StoreError
from stream_guard.judge.model import Json

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


def canonical(value: Json) -> bytes:
    """Return the value as RFC 8785 writes it, or in our own form where RFC 8785 has none.

    An agent can write integers that no double holds, and half a surrogate pair. Our form begins with ``~``, which no
    JSON does, so two different values never have the same text.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        # repr for what is not JSON: such a value equals no other, so an approval of it is never found again.
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)
        return b"~" + text.encode("ascii")


def digest_of(value: Json) -> str:
    """Return the SHA-256 of the canonical JSON, in hexadecimal."""
    return sha256(canonical(value)).hexdigest()
