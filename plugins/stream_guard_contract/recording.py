"""Recording: what happens in a cell becomes events, and events become lines that every other command reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from stream_guard.errors import SettingsError, SourceError
from stream_guard.language.arguments import parse_json
from stream_guard.model import Event, Json, ToolCall
from stream_guard.ports import Decoder, Record

MAX_TEXT: Final = 200_000  # characters of one text that are kept; what is longer is cut, and says so
_MAX_VALUE: Final = 1_000_000  # bytes of one JSON value


def clean(text: str) -> str:
    """Return a text that can be written as UTF-8 and is not endless."""
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]} [{len(text) - MAX_TEXT} characters cut]"
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return text.encode("utf-8", "replace").decode()
    return text


def storable(value: Any) -> Json:
    """Return a value as it will be read back: JSON as it is, anything else as its text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    try:
        encoded = msgspec.json.encode(value)
        if len(encoded) <= _MAX_VALUE:
            return parse_json(encoded)
    except (ValueError, TypeError, RecursionError):  # UnicodeEncodeError is a ValueError
        pass
    return clean(as_text(value))


def as_text(value: Any) -> str:
    """Return any value as a text: JSON where it can be, what Python says of it where not."""
    try:
        return json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):
        pass
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # an object of the agent's: its own text may fail in any way
        return f"<{type(value).__name__}>"


def encode_events(events: Iterable[Event]) -> bytes:
    """Return events as lines of the native format, without what goes without saying: people open these files."""
    return _ENCODER.encode_lines([_kept(event) for event in events])


def decode_events(lines: bytes, decoder: Decoder, origin: str) -> list[Event]:
    """Return the events of lines that were recorded here, as ``decoder``, the native one, reads them."""
    events = _DECODER.decode_lines(lines)
    if not any(type(event) is ToolCall and type(event.args) is str for event in events):
        return events
    # Arguments that are a text may be JSON in a text: that is for the decoder to find out.
    return [
        event
        for number, line in enumerate(lines.splitlines(keepends=True), 1)
        for event in decoder.decode(Record(value=line, origin=origin, line=number))
    ]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Event]] = msgspec.json.Decoder(Event)


class _Shape:
    """The fields of a kind of event, and for each the value that need not be written."""

    def __init__(self, kind: type[Event]) -> None:
        self.tag = kind.__struct_config__.tag
        self.silent = [
            (field.name, field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory())
            for field in msgspec.structs.fields(kind)
        ]


_SHAPES: Final = {kind: _Shape(kind) for kind in get_args(Event)}


def _kept(event: Event) -> dict[str, Any]:
    shape = _SHAPES[type(event)]
    kept = {"kind": shape.tag}
    for name, silent in shape.silent:
        value = getattr(event, name)
        if value is not silent and value != silent:
            kept[name] = value
    return kept


class TraceFile:
    """A file of recorded sessions; it must not be there yet, so that two runs never mix."""

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
        """Append sessions; a full disk is an error, not a shorter recording."""
        try:
            self._file.writelines(sessions)
            self._file.flush()
        except OSError as error:
            raise SourceError(f"cannot write {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()
