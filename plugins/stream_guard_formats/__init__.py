"""Decoders: the formats that records come in."""

from __future__ import annotations

from importlib.util import find_spec

from stream_guard import Decoder, hookimpl
from stream_guard_formats.auto import AutoDecoder
from stream_guard_formats.builtin import BUILT_IN
from stream_guard_formats.chat.text_protocol import TextProtocolDecoder


@hookimpl
def stream_guard_decoders() -> dict[str, type[Decoder]]:
    """Return the decoders of this pack, by format name; two of them only with the extra ``otlp``."""
    found: dict[str, type[Decoder]] = {
        **BUILT_IN,
        "auto": AutoDecoder,
        "text-protocol": TextProtocolDecoder,
    }
    if find_spec("opentelemetry") is not None and find_spec("opentelemetry.proto") is not None:
        # Only now: without the extra, the rest of the pack works.
        from stream_guard_formats.spans.otlp_proto import OtlpExportsDecoder, OtlpProtoDecoder  # noqa: PLC0415

        found |= {"otlp": OtlpExportsDecoder, "otlp-proto": OtlpProtoDecoder}
    return found
