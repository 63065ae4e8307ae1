"""Events as trails: what a session did, step by step, so that it can be paired, measured and aligned."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import rfc8785

from stream_guard import Event, Json, RecordedCall, RecordedTurn, Recording, ToolCall, ToolResult, Turn, UserMessage

# Turns as they are compared: their text, their calls, and the tokens that calls are compared by.

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


# Events as trails: what a session did, step by step, so that it can be paired, measured and aligned.


class UserStep(NamedTuple):
    """A person wrote something."""

    text: str


class ResultStep(NamedTuple):
    """A tool answered."""

    output: Json
    failed: bool


TrailStep: TypeAlias = UserStep | ResultStep | RecordedTurn

_NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class SessionTrail:
    """One recorded session: its turns, and what stood between them."""

    recording: Recording
    steps: tuple[TrailStep, ...] = ()
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)

    @property
    def session_id(self) -> str:
        """The id, as the source has it."""
        return self.recording.session_id

    def asked(self) -> str:
        """Return what the user said, all of it; without recorded messages, what stands in the first request."""
        said = [step.text for step in self.steps if isinstance(step, UserStep)]
        if not said and self.recording.turns:
            said = list(_user_texts(self.recording.turns[0].request))
        return "\n".join(said)


@dataclass(slots=True)
class _OpenSession:
    """A session that is being read."""

    turns: list[RecordedTurn] = field(default_factory=list)
    steps: list[TrailStep] = field(default_factory=list)
    announced: set[str] = field(default_factory=set)  # call ids of tool-use blocks; their attempts are not new calls
    labels: dict[str, str] = field(default_factory=dict)
    results: int = 0
    failed: int = 0

    def add_turn(self, turn: RecordedTurn) -> None:
        self.turns.append(turn)
        self.steps.append(turn)


def read_trails(events: Iterable[Event]) -> list[SessionTrail]:
    """Return the sessions of the events, in the order in which they began; they may be mixed."""
    sessions: defaultdict[str, _OpenSession] = defaultdict(_OpenSession)
    for event in events:
        session = sessions[event.session_id]
        if event.labels:
            session.labels.update(event.labels)
        if isinstance(event, Turn):
            session.add_turn(read_turn(len(session.turns), event.request or {}, event.response))
            session.announced |= call_ids(event.response)
        elif isinstance(event, ToolCall):
            _add_call(session, event)
        elif isinstance(event, ToolResult):
            session.results += 1
            session.failed += event.status == "error"
            session.steps.append(ResultStep(event.output, event.status == "error"))
        elif isinstance(event, UserMessage):
            session.steps.append(UserStep(event.text))
    return [_close(name, session) for name, session in sessions.items()]


def _close(name: str, session: _OpenSession) -> SessionTrail:
    recording = Recording(
        session_id=name, turns=tuple(session.turns), results=session.results, failed_results=session.failed
    )
    return SessionTrail(recording, tuple(session.steps), session.labels)


def _add_call(session: _OpenSession, event: ToolCall) -> None:
    """A call that no response announced is a turn of its own: sources that record only attempts have no others."""
    if event.call_id and event.call_id in session.announced:
        return
    if not event.call_id and session.turns and any(call.tool == event.tool for call in session.turns[-1].calls):
        return
    call = read_call(event.tool, event.args)
    session.add_turn(RecordedTurn(index=len(session.turns), request={}, response={}, calls=(call,)))


def _user_texts(request: Mapping[str, Any]) -> Iterable[str]:
    messages = request.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            blocks = content if isinstance(content, list) else [content]
            for block in blocks:
                text = block.get("text") if isinstance(block, dict) else block
                if isinstance(text, str):
                    yield text
