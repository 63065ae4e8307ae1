"""A quick encoding of what an event tells. The plain build has none; ``plain_content.c`` is the compiled build's."""

from __future__ import annotations

from stream_guard.model import Json


def encode_plain(kind: str, time: float, *told: Json) -> bytes | None:
    """Return the MessagePack of ``(kind, time, told)``; None: it is left to the encoder."""
    del kind, time, told
    return None
