"""CloudEvents 1.0, structured and in the binary form of Kafka: an envelope around a native event."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record, read_json
from stream_guard_formats.conversation import MAX_ID
from stream_guard_formats.native.decoder import NativeDecoder
from stream_guard_formats.reading import as_object, digest, excerpt, has_fields, name_of, text_at

_PREFIX: Final = "ce_"
_NEEDED: Final = ("specversion", "id", "source", "type")


class CloudEventsDecoder(JsonDecoder):
    """Reads events in envelopes. The envelope supplies a missing id, a missing time, and the session as subject."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is an event in the structured form."""
        return 1.0 if has_fields(data, "specversion", "type", "source") else 0.0

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._native = NativeDecoder(strict_keys=strict_keys)

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events in the envelope, or raise DecodeError. The binary form has its envelope in headers."""
        headers = {name: value for name, value in record.headers if name.startswith(_PREFIX)}
        if not headers:
            return super().decode(record)
        envelope: dict[str, Json] = {
            name.removeprefix(_PREFIX): value.decode("utf-8", "replace") for name, value in headers.items()
        }
        return self._open(envelope, _read_payload(record, strict_keys=self.strict_keys), record)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events in an envelope of the structured form, or raise DecodeError."""
        envelope = as_object(data, "a CloudEvent")
        return self._open(envelope, _data(envelope, strict_keys=self.strict_keys), record)

    def _open(self, envelope: dict[str, Json], payload: Json, record: Record) -> Sequence[Event]:
        _check(envelope)
        if not isinstance(payload, dict):
            raise DecodeError(f'"data" must be an event as an object, this is {name_of(payload)}')
        event: dict[str, Any] = dict(payload)
        # The id of an envelope is unique for its source only, and may be long.
        name = f"{text_at(envelope, 'source')} {text_at(envelope, 'id')}"
        event.setdefault("event_id", f"ce{digest(name.encode())}")
        if "time" in envelope:
            event.setdefault("time", envelope["time"])
        event.setdefault("session_id", text_at(envelope, "subject", "partitionkey")[:MAX_ID])
        return self._native.decode(msgspec.structs.replace(record, value=msgspec.json.encode(event)))


def _check(envelope: dict[str, Json]) -> None:
    for name in _NEEDED:
        if not text_at(envelope, name):
            raise DecodeError(f'the CloudEvent has no "{name}"; version 1.0 needs {", ".join(_NEEDED)}')
    if envelope["specversion"] != "1.0":
        raise DecodeError(f"the CloudEvent has the specversion {excerpt(envelope['specversion'])}; 1.0 is read")


def _data(envelope: dict[str, Json], *, strict_keys: bool) -> Json:
    if "data_base64" not in envelope:
        return envelope.get("data")
    try:
        value = base64.b64decode(str(envelope["data_base64"]), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(f'"data_base64" is not base64: {error}') from None
    return _read_payload(Record(value), strict_keys=strict_keys)


def _read_payload(record: Record, *, strict_keys: bool) -> dict[str, Json] | None:
    data = read_json(record, strict_keys=strict_keys)
    return None if data is None else as_object(data, "the data of a CloudEvent")
