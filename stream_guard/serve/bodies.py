"""Request bodies: read within limits, and refused with a reason and advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from stream_guard.decoding.reader import check_names
from stream_guard.errors import DecodeError
from stream_guard.http.traceparent import trace_labels
from stream_guard.judge.arguments import parse_json
from stream_guard.judge.model import Event, Json, SessionEnd, ToolCall, resolved
from stream_guard.ports import Decoder, Record

Body = TypeVar("Body", bound=msgspec.Struct)

MAX_EVENTS: Final = 1000  # of one request


class RequestRefused(Exception):  # noqa: N818  (becomes an answer; no error of the server)
    """A request is refused with an HTTP status and a reason."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


@resolved
class AnswerBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a person says about a review or an incident; who it is, only where there are no tokens to say it."""

    by: Annotated[str, msgspec.Meta(max_length=200)] = ""
    note: Annotated[str, msgspec.Meta(max_length=2000)] = ""


@resolved
class Approval(AnswerBody):
    """A yes; with the digest of the arguments that were shown, it is refused when they are others."""

    arguments_digest: str = ""


async def read_json(request: Request, most: int) -> Json:
    """Return the body's value; RequestRefused when it is too large, of another type, or not JSON."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A defence too: a browser sends this type to another site only after a preflight request.
    if media != "application/json":
        raise RequestRefused(415, "send application/json")
    body = await read_body(request, most)
    try:
        return parse_json(body)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, f"not JSON that can be used: {error}") from None


async def read_body(request: Request, most: int) -> bytes:
    """Return the body as it is; RequestRefused when it is too large."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                text = f"the request has more than {most} bytes; send less at once"
                raise RequestRefused(413, text, {"Connection": "close"})
    except ClientDisconnect:  # nobody hears it; but whoever hangs up must not fill the log with errors of the server
        raise RequestRefused(400, "the body ends too early") from None
    return bytes(body)


def take_flag(data: Json, name: str) -> tuple[Json, bool]:
    """Return a body without a flag, and the flag; false where it is left out, RequestRefused where it is none."""
    if not isinstance(data, dict) or name not in data:
        return data, False
    if not isinstance(data[name], bool):
        raise RequestRefused(422, f"{name} is true or false")
    return {key: value for key, value in data.items() if key != name}, data[name]


def with_trace(data: Json, header: str | None) -> Json:
    """Return a body whose event has the trace context of its request, unless its labels name another."""
    found, labels = trace_labels(header), data.get("labels", {}) if isinstance(data, dict) else None
    return {**data, "labels": {**found, **labels}} if found and isinstance(labels, dict) else data


def to_attempt(data: Json, decoder: Decoder) -> ToolCall:
    """Return the tool call that a body describes, or raise RequestRefused."""
    if not isinstance(data, dict):
        raise RequestRefused(422, "send one object with session_id, tool and args")
    event = to_event({"kind": "tool_call", **data}, decoder)
    if not isinstance(event, ToolCall):
        raise RequestRefused(422, f'kind is {data.get("kind")!r}; only a "tool_call" can be checked')
    return event


def to_ending(data: Json, decoder: Decoder) -> SessionEnd:
    """Return the end of a session that a body describes, or raise RequestRefused."""
    if not isinstance(data, dict):
        raise RequestRefused(422, "send one object with session_id")
    event = to_event({"kind": "session_end", **data}, decoder)
    if not isinstance(event, SessionEnd):
        raise RequestRefused(422, f"kind is {data.get('kind')!r}; leave it out, and name the session in session_id")
    return event


def to_items(data: Json) -> list[Json]:
    """Return the events of a body as they were sent, or raise RequestRefused."""
    listed = data.get("events") if isinstance(data, dict) else None
    if not isinstance(listed, list) or len(listed) > MAX_EVENTS:
        raise RequestRefused(422, f'send {{"events": [...]}} with {MAX_EVENTS} events or fewer')
    return listed


def to_form(data: Json, form: type[Body]) -> Body:
    """Return the body as a struct, or raise RequestRefused."""
    try:
        return msgspec.convert(data, form)
    except msgspec.ValidationError as error:
        raise RequestRefused(422, str(error)) from None


def to_event(data: Json, decoder: Decoder) -> Event:
    """Decode an event with the decoder of all sources, so that the same events are refused everywhere."""
    try:
        [event] = decoder.decode(Record(value=msgspec.json.encode(data), origin="http", position=0))
        check_names(event)
    except DecodeError as error:
        raise RequestRefused(422, str(error)) from None
    if event.session_id[0] == "\0":
        raise RequestRefused(422, "session_id begins with a NUL character; give every event its session's id")
    return event
