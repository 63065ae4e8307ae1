"""Transcripts: records with a list of messages, found at one of the places where formats keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stream_guard import DecodeError, Json
from stream_guard_formats.conversation import derived_session
from stream_guard_formats.reading import as_object, name_of, object_at, objects_of, text_at

# Fields that may hold the id of the conversation, best first; also under "metadata".
SESSION_FIELDS: Final = ("session_id", "sessionId", "conversation_id", "conversationId", "thread_id", "threadId")


class Transcript(NamedTuple):
    """A record with a list of messages."""

    data: dict[str, Json]  # the whole record
    holder: dict[str, Json]  # the object that holds the list
    messages: list[dict[str, Json]]


def open_run(data: Json, what: str, field: str, *, advice: str = "") -> Transcript:
    """Return a record that is an object with a list of objects in one field, or raise DecodeError.

    ``what`` names the expected record in the reason. ``advice`` is added to the reason if the field is missing.
    """
    run = as_object(data, what)
    if field not in run:
        raise DecodeError(f'{what} has "{field}", and this record has none{advice}')
    return Transcript(run, run, messages_in(run[field], field))


def open_chat(data: Json, what: str, holders: Sequence[str], *, fields: Sequence[str] = ("messages",)) -> Transcript:
    """Return a record that is a list of messages, or an object with the list at its top or inside one of ``holders``.

    ``what`` names the expected record in the reason of a DecodeError.
    """
    if isinstance(data, list):
        data = {fields[0]: data}
    if not isinstance(data, dict):
        raise DecodeError(f"{what} is an object or a list of messages, this is {name_of(data)}")
    holder = next((found for name in holders if (found := object_at(data, name))), data)
    field = next((name for name in fields if name in holder), None)
    if field is None:
        places = " or ".join(["at the top", *(f'under "{name}"' for name in holders)])
        raise DecodeError(f'{what} has "{fields[0]}" {places}, and this record has none')
    return Transcript(data, holder, messages_in(holder[field], field))


def is_transcript(items: Sequence[Json]) -> bool:
    """Whether a list holds the messages of one transcript, and not transcripts."""
    holders = ("messages", "request", "response", "choices", "values")
    return not any(isinstance(item, dict) and any(name in item for name in holders) for item in items[:1])


def messages_in(found: Json, field: str) -> list[dict[str, Json]]:
    """Return a list of messages, or raise DecodeError."""
    if not isinstance(found, list):
        raise DecodeError(f'"{field}" must be a list of messages, this is {name_of(found)}')
    return objects_of(found, field, "messages")


def find_session(data: dict[str, Json], value: bytes) -> str:
    """Return the id of the conversation in a record, or one derived from the bytes of the record."""
    return (
        text_at(data, *SESSION_FIELDS)
        or text_at(object_at(data, "metadata"), *SESSION_FIELDS)
        or derived_session(value)
    )
