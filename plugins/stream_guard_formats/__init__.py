"""Decoders: the formats that records come in."""

from __future__ import annotations

from stream_guard import hookimpl
from stream_guard_formats.native import NativeDecoder


@hookimpl
def stream_guard_decoders() -> dict[str, type[NativeDecoder]]:
    """Return the decoders of this pack, by format name."""
    return {"native": NativeDecoder}
