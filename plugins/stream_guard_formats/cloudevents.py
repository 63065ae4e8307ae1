"""CloudEvents 1.0, structured and in the binary form of Kafka: an envelope around an event of ours."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stream_guard import DecodeError, Event, Json, Record
from stream_guard_formats.conversation import MAX_ID
from stream_guard_formats.native import NativeDecoder
from stream_guard_formats.reading import digest, excerpt, name_of, read_object, text_at
from stream_guard_formats.reasons import say_too_large

_PREFIX: Final = "ce_"
_NEEDED: Final = ("specversion", "id", "source", "type")


class CloudEventsDecoder:
    """Reads events in envelopes. What the event leaves out, the envelope says: id, time, and the session as subject."""

    def __init__(self, *, strict_keys: bool = True) -> None:
        self._strict = strict_keys
        self._native = NativeDecoder(strict_keys=strict_keys)

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events in the envelope, or raise DecodeError."""
        if record.truncated:
            raise DecodeError(say_too_large(record))
        headers = {name: value for name, value in record.headers if name.startswith(_PREFIX)}
        if headers:
            envelope: dict[str, Json] = {
                name.removeprefix(_PREFIX): value.decode("utf-8", "replace") for name, value in headers.items()
            }
            payload: Json = read_object(record, "the data of a CloudEvent", strict_keys=self._strict)
        else:
            found = read_object(record, "a CloudEvent", strict_keys=self._strict)
            if found is None:
                return []
            envelope, payload = found, _data(found, strict_keys=self._strict)
        _check(envelope)
        if not isinstance(payload, dict):
            raise DecodeError(f'"data" must be an event as an object, this is {name_of(payload)}')
        return self._open(envelope, payload, record)

    def _open(self, envelope: dict[str, Json], payload: dict[str, Json], record: Record) -> Sequence[Event]:
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
    return read_object(Record(value), "the data of a CloudEvent", strict_keys=strict_keys)
