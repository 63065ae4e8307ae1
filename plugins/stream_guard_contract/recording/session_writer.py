"""Writes recorded sessions as native JSON lines, and reads those lines back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import astuple

from stream_guard import Decoder, Event, Json, Record, SettingsError, SourceError, ToolCall, parse_json

MAX_TEXT: Final = 200_000  # characters of one text; a longer one is cut and marked
_MAX_VALUE: Final = 1_000_000  # bytes of one JSON value


def clean(text: str) -> str:
    """Return the text as valid UTF-8 of bounded length."""
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]} [{len(text) - MAX_TEXT} characters cut]"
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return text.encode("utf-8", "replace").decode()
    return text


def storable(value: Any) -> Json:
    """Return the value as it is read back from the recording: JSON unchanged, anything else as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    try:
        encoded = _ENCODER.encode(value)
        if len(encoded) <= _MAX_VALUE:
            return parse_json(encoded)
    except (ValueError, TypeError, RecursionError):  # UnicodeEncodeError is a ValueError
        pass
    return clean(as_text(value))


def is_storable(value: Json) -> bool:
    """Whether a value that is JSON is read back unchanged: valid UTF-8, and not too large."""
    try:
        return len(_ENCODER.encode(value)) <= _MAX_VALUE
    except (ValueError, TypeError, RecursionError):  # as in storable
        return False


def as_text(value: Any) -> str:
    """Return any value as text: as JSON, or else as ``str`` gives it."""
    try:
        return json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):
        pass
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # an object of the agent's: its __str__ may raise anything
        return f"<{type(value).__name__}>"


def encode_events(events: Iterable[Event]) -> bytes:
    """Return events as lines of the native format; fields with their default value are left out for readability."""
    return _ENCODER.encode_lines([_WRITTEN[type(event)](*astuple(event)) for event in events])


def decode_events(lines: bytes, decoder: Decoder, origin: str) -> list[Event]:
    """Return the events of recorded lines, with the same result as ``decoder``, the native decoder."""
    events = _DECODER.decode_lines(lines)
    if not any(type(event) is ToolCall and type(event.args) is str for event in events):
        return events
    # Arguments that are a string may hold JSON: only the decoder handles that.
    return [
        event
        for number, line in enumerate(lines.splitlines(keepends=True), 1)
        for event in decoder.decode(Record(value=line, origin=origin, line=number))
    ]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Event]] = msgspec.json.Decoder(Event)


def _written(kind: type[Event]) -> Callable[..., msgspec.Struct]:
    """Return a struct with the fields of a kind of event, in their order, that is written without its defaults."""
    fields = []
    for field in msgspec.structs.fields(kind):
        default = None if field.required else field.default  # what is required is never None
        if field.default_factory is not msgspec.NODEFAULT:
            default = msgspec.field(default_factory=field.default_factory)
        fields.append((field.name, Any, default))
    config = kind.__struct_config__
    return msgspec.defstruct(kind.__name__, fields, tag_field=config.tag_field, tag=config.tag, omit_defaults=True)


_WRITTEN: Final = {kind: _written(kind) for kind in get_args(Event)}


class TraceFile:
    """A new file of recorded sessions; an existing file is refused, so that two runs never mix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("xb")
        except FileExistsError:
            raise SettingsError(
                f"{path} is there already; name a new file, so that two runs do not mix in one"
            ) from None
        except OSError as error:
            raise SettingsError(f"cannot write {path}: {error.strerror}") from None

    def write(self, sessions: Sequence[bytes]) -> None:
        """Append sessions; SourceError where they cannot be written, such as on a full disk."""
        try:
            self._file.writelines(sessions)
            self._file.flush()
        except OSError as error:
            raise SourceError(f"cannot write {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()
