"""Canonical JSON: equal values have equal digests, wherever they were written."""

from __future__ import annotations

import json
from hashlib import sha256

import rfc8785

from stream_guard.judge.model import Json


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
