"""JSON in one spelling, so that equal values have equal digests wherever they were written."""

from __future__ import annotations

import json
from hashlib import sha256

import rfc8785

from stream_guard.model import Json


def canonical(value: Json) -> bytes:
    """Return the value as RFC 8785 writes it; what RFC 8785 cannot say gets a spelling of its own.

    An agent can write integers that no double holds, and half a surrogate pair. Such values begin with ``~``,
    which no JSON does, so they never have the spelling of another value.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        # repr for what is no JSON at all: such a value has no equal, and an approval of it is never found again.
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)
        return b"~" + text.encode("ascii")


def digest_of(value: Json) -> str:
    """Return the SHA-256 of the canonical spelling, in hexadecimal."""
    return sha256(canonical(value)).hexdigest()
