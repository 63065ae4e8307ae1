"""OTLP in either encoding, as a receiver takes it in: each export says which it is."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Final, Self

from stream_guard import Event, Memory, Record
from stream_guard_formats.spans.otlp_base import OtlpDecoder
from stream_guard_formats.spans.otlp_json import OtlpJsonDecoder
from stream_guard_formats.spans.otlp_proto import OtlpProtoDecoder

_JSON: Final = b"application/json"


class OtlpExportsDecoder(OtlpDecoder):
    """Reads exports in protobuf and in JSON. The header ``content-type`` names the encoding, else the first byte does.

    Spans of one trace may come in both encodings: both decoders use the same sessions.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._json, self._binary = OtlpJsonDecoder(**options), OtlpProtoDecoder(**options)
        self._json.share(self)
        self._binary.share(self)

    def remember(self, memory: Memory) -> Self:
        """Return a copy that lets spans wait, and keeps them in ``memory``."""
        holding = super().remember(memory)
        holding._json, holding._binary = copy(self._json), copy(self._binary)  # noqa: SLF001  # of its own class
        holding._json.share(holding)  # noqa: SLF001
        holding._binary.share(holding)  # noqa: SLF001
        return holding

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events of the spans in time order, or raise DecodeError."""
        media = next((value for name, value in record.headers if name.lower() == "content-type"), b"")
        is_json = media.startswith(_JSON) if media else record.value.lstrip()[:1] == b"{"
        return self._json.decode(record) if is_json else self._binary.decode(record)
