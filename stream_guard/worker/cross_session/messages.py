"""The messages between partitions, as they are written to the cross-session topic."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from stream_guard.model import Event
from stream_guard.worker.rows import EventPosition


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


class ClockMessage(msgspec.Struct, array_like=True, tag=2, gc=False):
    """The watermark of a sender; None before its first event. The tag and the order of the fields are the format."""

    sender: int
    watermark: float | None


CrossSessionMessage: TypeAlias = EventMessage | ClockMessage

encode_message: Final = msgspec.msgpack.Encoder().encode
decode_message: Final = msgspec.msgpack.Decoder(CrossSessionMessage).decode
