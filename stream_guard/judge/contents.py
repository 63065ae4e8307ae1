"""What an event tells, as a number: by it a redelivery is known from another event under the same id."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec
import xxhash

from stream_guard.judge.arguments import read_call
from stream_guard.judge.model import Event, GateDecision, Json, ToolCall, ToolResult, Turn, UserMessage

_encode: Final = msgspec.msgpack.Encoder().encode
_MOST_PARTS: Final = 100_000
_hash: Final = xxhash.xxh3_64_intdigest


def content_digest(event: Event, timed: bool = True, seed: int = 0) -> int:
    """Return a number that is the same for an event delivered again; never 0. What is stamped on it does not count.

    With a seed that nobody knows, nobody can make two events that have the same number.
    """
    return _hash(content_of(event, timed), seed) or 1


def exact_content(event: Event, timed: bool = True) -> str:
    """Return a digest that is the same in every run, and that nobody can find another event for."""
    return blake2b(content_of(event, timed), digest_size=16).hexdigest()


def content_of(event: Event, timed: bool = True) -> bytes:
    """Return what an event tells.

    Without ``timed`` its time does not count either: it is the receiver's, and another at each delivery.

    A turn that is sent again as history has what was said, and no longer its usage or its stop reason. The agent of
    an event may become known only when a recording is complete, so it counts only where there is no time.
    """
    told: tuple[Json, ...]
    # Names of types are written out, and types compared: both take half of what asking for them takes.
    if type(event) is Turn:
        told, kind = (event.response.get("content"),), "Turn"
    elif type(event) is ToolCall:
        args, kind = event.args, "ToolCall"
        plain = type(args) is not str and not event.contested
        told = (event.tool, event.call_id, args) if plain else _told_as_text(event)
    elif type(event) is ToolResult:
        told, kind = (event.call_id, event.status, event.output), "ToolResult"
    elif type(event) is UserMessage:
        told, kind = (event.text,), "UserMessage"
    elif type(event) is GateDecision:
        told, kind = (event.call_id, event.action), "GateDecision"
    else:
        told, kind = (), "SessionEnd"
    time = event.time if timed else None
    told = (kind, time, told) if time is not None else (kind, None, event.agent, event.run_id, told)
    try:
        return _encode(told)
    except (TypeError, ValueError, OverflowError, RecursionError):  # a huge number; in this process it may be anything
        return _written_flat(told)


def _written_flat(told: object) -> bytes:
    """Return a value that no encoder takes, level by level: it may be nested deeper than a function can call itself."""
    written: list[str] = []
    waiting: list[object] = [told]
    for item in waiting:  # grows while it is walked
        if isinstance(item, dict):
            written.append(repr(("dict", *map(repr, item))))
            waiting += item.values()
        elif isinstance(item, list | tuple):
            written.append(f"list {len(item)}")
            waiting += item
        else:
            written.append(repr(item))
        if len(written) >= _MOST_PARTS:  # of a value that holds itself
            break
    return "\n".join(written).encode("utf-8", "surrogatepass")


def _told_as_text(call: ToolCall) -> tuple[Json, ...]:
    """Return what a call tells whose arguments are still to be read, which makes no other call of it."""
    call = read_call(call)
    args, contested = call.args, call.contested
    return (call.tool, call.call_id, args, contested) if contested else (call.tool, call.call_id, args)
