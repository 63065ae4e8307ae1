"""Decoders: the formats that records come in."""

from __future__ import annotations

from typing import Any

from stream_guard import hookimpl
from stream_guard_formats.agentlog import AgentlogDecoder
from stream_guard_formats.auto import READERS, AutoDecoder


@hookimpl
def stream_guard_decoders() -> dict[str, type[Any]]:
    """Return the decoders of this pack, by format name."""
    return {"agentlog": AgentlogDecoder, **READERS, "auto": AutoDecoder}
