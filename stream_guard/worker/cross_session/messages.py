"""Events on their way to rules that look across sessions, as they stand in the topic."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from stream_guard.model import Event
from stream_guard.worker.rows import Place


class EventMessage(msgspec.Struct, array_like=True, tag=1, gc=False):
    """An event for the rules of one key value; a bare header where it only says that the key is not silent."""

    sender: int
    tag: int  # of the topic that the event came from
    at: Place
    key_id: str
    turns: int
    memory: list[int]
    event: Event


class ClockMessage(msgspec.Struct, array_like=True, tag=2, gc=False):
    """How far a sender's clock has come; None when nothing ever came there."""

    sender: int
    watermark: float | None


Item: TypeAlias = EventMessage | ClockMessage

encode_item: Final = msgspec.msgpack.Encoder().encode
decode_item: Final = msgspec.msgpack.Decoder(Item).decode
