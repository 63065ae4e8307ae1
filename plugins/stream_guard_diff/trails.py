"""Events as trails: what a session did, step by step, so that it can be paired, measured and aligned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from stream_guard import Event, Json, RecordedTurn, Recording, ToolCall, ToolResult, Turn, UserMessage
from stream_guard_diff.turns import call_ids, read_call, read_turn


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
