"""Turns as they are compared: their text, their calls, and the tokens that calls are compared by."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Final

import rfc8785

from stream_guard import Json, RecordedCall, RecordedTurn

_REFUSING: Final = re.compile(
    r"\b(i (can(no|')t|can\u2019t|am unable to|am not able to|won't|will not|must decline)"
    r"|i'm (unable|not able|sorry, but i can)|as an ai( language)? model|i have to decline|against my guidelines)"
)
_write: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_LARGE: Final = re.compile(r"[0-9]{16}")  # beyond what a double holds, RFC 8785 has another opinion
_HEAD: Final = 2000  # a refusal says so at once; the rest of a long answer is not searched


def read_turn(index: int, request: Mapping[str, Json], response: Mapping[str, Json]) -> RecordedTurn:
    """Return a turn with everything that axes and alignment ask for, read once."""
    text, calls = _read_content(response.get("content"))
    stop = response.get("stop_reason")
    return RecordedTurn(
        index=index,
        request=dict(request),
        response=dict(response),
        text=text,
        calls=tuple(calls),
        stop_reason=stop if isinstance(stop, str) else "",
        refused=stop == "content_filter" or bool(_REFUSING.search(text[:_HEAD].lower())),
    )


def _read_content(content: Json) -> tuple[str, list[RecordedCall]]:
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    calls: list[RecordedCall] = []
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif block.get("type") == "tool_use":
            name = block.get("name")
            calls.append(read_call(name if isinstance(name, str) and name else "_", block.get("input")))
    return "\n".join(texts), calls


def call_ids(response: Mapping[str, Json]) -> set[str]:
    """Return the ids of the calls that a response announces."""
    content = response.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return {block["id"] for block in blocks if block.get("type") == "tool_use" and isinstance(block.get("id"), str)}


def read_call(tool: str, args: Json) -> RecordedCall:
    """Return a call with its shape and its token: name, sorted argument names, digest of the values."""
    names = ",".join(sorted(args)) if isinstance(args, dict) else ""
    shape = f"{tool}({names})"
    return RecordedCall(tool, args, shape, f"{shape}|{digest(args)}")


def digest(value: Json) -> str:
    """Return 8 bytes of SHA-256 over the canonical JSON (RFC 8785) in hex; 1 and 1.0 are the same number."""
    return hashlib.sha256(canonical(value)).hexdigest()[:16]


def canonical(value: Json) -> bytes:
    """Return canonical JSON with strings in Unicode's composed form (NFC)."""
    if type(value) is dict and all(type(item) is str or type(item) is int for item in value.values()):
        # What most tools are given is written the same by the quick encoder, as long as all of it is plain.
        quick = _write(value)
        if quick.isascii() and not _LARGE.search(quick):
            return quick.encode()
    try:
        written: bytes = rfc8785.dumps(value)
        return written if written.isascii() else rfc8785.dumps(_composed(value))
    except rfc8785.CanonicalizationError:
        # RFC 8785 knows no integer that a double cannot hold, and no lone surrogate; recordings have both.
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _composed(value: Json) -> Json:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_composed(item) for item in value]
    if isinstance(value, dict):
        return {unicodedata.normalize("NFC", key): _composed(item) for key, item in value.items()}
    return value
