"""A decoder for the log of a help desk: the line, its events, hook. Copy this folder and write your own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

import stream_guard as sg

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]  # ids are remembered: a long one costs memory
Time = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]  # seconds since 1970, before the year 10000


class HelpdeskLine(msgspec.Struct):
    """One line of the log."""

    id: Id
    ticket: Id
    who: Literal["customer", "bot", "tool"]
    at: Time | None = None
    text: str = ""
    tool: str = ""
    input: dict[str, sg.Json] = {}


class HelpdeskDecoder(sg.JsonDecoder):
    """Reads one line to a record: a message of the customer, a reply of the bot, or a use of a tool."""

    @classmethod
    def recognises(cls, data: sg.Json) -> float:
        """Return the confidence that a record is a line of the log: only its lines have a ticket."""
        return 0.95 if isinstance(data, dict) and "ticket" in data and "who" in data else 0.0

    def read(self, data: sg.Json, record: sg.Record) -> Sequence[sg.Event]:
        """Return the line's event. Its id is the line's own, so that a line that is read again changes nothing."""
        del record  # says where the line came from, for formats whose lines have no id
        try:
            line = msgspec.convert(data, HelpdeskLine)
        except msgspec.ValidationError as error:
            raise sg.DecodeError(f"not a line of a help desk's log: {error}") from None
        header: dict[str, Any] = {"session_id": line.ticket, "event_id": line.id, "time": line.at}
        if line.who == "customer":
            return [sg.UserMessage(**header, text=line.text)]
        if line.who == "bot":
            return [sg.Turn(**header, response={"content": [{"type": "text", "text": line.text}]})]
        return [sg.ToolCall(**header, tool=line.tool, call_id=line.id, args=line.input)]


@sg.hookimpl
def stream_guard_decoders() -> dict[str, type[sg.Decoder]]:
    """Return the decoder under the name that ``--from-format`` takes."""
    return {"helpdesk": HelpdeskDecoder}
