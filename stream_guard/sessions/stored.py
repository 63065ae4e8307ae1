"""What a session stores: itself as a row, and its open calls.

The structs have a module of their own because msgspec reads annotations when a class is defined, and a compiled
module keeps no annotations (docs/adr/0015).
"""

from __future__ import annotations

from typing import Final

import msgspec
import xxhash

from stream_guard.language.paths import json_equal
from stream_guard.model import Event, Json

ROW_VERSION: Final = 1


class OpenCall(msgspec.Struct, array_like=True, gc=False):
    """A tool call that has no result yet."""

    call_id: str
    tool: str
    attempt: int
    index: int
    in_block: bool  # a turn's tool-use block announced it
    in_event: bool  # a tool_call event reported it
    digest: int = 0  # of the arguments; 0 until it is needed
    args: Json = None  # complete in memory; a stored session keeps only what the policy reads

    def same_call(self, tool: str, args: Json) -> bool:
        """Whether a call with this tool and these arguments is this attempt."""
        if tool != self.tool:
            return False
        if self.digest == 0:
            return json_equal(args, self.args)  # not `==`: there true equals 1, and deep nesting raises
        return self.digest == args_digest(args)


def args_digest(args: Json) -> int:
    """Return a number that is the same for equal arguments, in any order of keys; never 0."""
    return xxhash.xxh3_64_intdigest(msgspec.json.encode(args, order="sorted")) or 1


class StoredSession(msgspec.Struct, array_like=True, gc=False):
    """A session as it is stored. The order of the fields is the format: a change of it needs a higher ROW_VERSION."""

    version: int
    session_id: str
    run_id: str
    agent: str
    labels: dict[str, str]
    last_event_id: str
    time: float | None
    turns: int
    part: int
    flags: int
    seq: int
    attempts: int
    lag: float
    explicit_part: str
    recent: bytes
    older: bytes
    memory: list[int]
    open: list[OpenCall]
    states: list[tuple[int, tuple[str, ...], msgspec.Raw]]
    awaiting_end: list[tuple[int, tuple[str, ...]]]
    unevaluable: list[int]
    cooldowns: list[tuple[int, tuple[str, ...], float, int]]
    holds: list[tuple[int, tuple[str, ...], float]]
    buffer: list[tuple[float, int, Event]]
