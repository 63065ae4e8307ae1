"""The messages between partitions, as they are written to the cross-session topic."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from stream_guard.judge.json_values import decode, encode, is_json
from stream_guard.judge.model import Event, resolved
from stream_guard.worker.rows import EventPosition


@resolved
class EventMessage(msgspec.Struct, array_like=True, tag=1, gc=False):
    """An event for the rules of one key value, without content where it only keeps the key from becoming idle.

    The tag and the order of the fields are the format.
    """

    sender: int
    tag: int  # of the event's topic
    position: EventPosition
    key_id: str
    turns: int
    memory: list[int]
    event: Event


@resolved
class ClockMessage(msgspec.Struct, array_like=True, tag=2, gc=False):
    """The clock of a sender, behind its events. The tag and the order of the fields are the format."""

    sender: int
    watermark: float | None  # None before its first event
    wall: float = 0.0  # when it was sent; 0 from an earlier version
    read_until: float | None = None  # the wall time before which the sender has read all that was written to it


CrossSessionMessage: TypeAlias = EventMessage | ClockMessage

encode_message: Final = encode
_decode: Final = msgspec.msgpack.Decoder(CrossSessionMessage).decode


def decode_message(data: bytes) -> CrossSessionMessage:
    """Return a message as it was sent; an event may hold what only JSON has a form for."""
    message: CrossSessionMessage = decode(data, CrossSessionMessage) if is_json(data) else _decode(data)
    return message
