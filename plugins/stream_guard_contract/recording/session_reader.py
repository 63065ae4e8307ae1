"""Reads recorded sessions for scoring: the labels, the turn that is the answer, and the faults that were met."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

import msgspec
from msgspec.structs import replace

from stream_guard import Event, Json, ToolCall, ToolResult, Turn
from stream_guard_contract.recording.labels import (
    ANSWER,
    ATTACKED,
    MODEL,
    PROMPT,
    ROLE,
    SessionLabels,
    read_labels,
    shows_tool_fault,
)

_ROLES: Final = frozenset((ANSWER, MODEL))


class RecordedSession(msgspec.Struct, frozen=True):
    """One recorded session: a prompt under a scenario, with its events."""

    session_id: str
    events: tuple[Event, ...]  # the answer is labelled with its role, its prompt, and whether the agent was attacked
    labels: SessionLabels
    answer: Turn | None
    categories_met: frozenset[str]  # of the faults that its events show, injected or not

    @property
    def text(self) -> str:
        """The text of the agent's answer; empty where there is none."""
        return "" if self.answer is None else answer_text(self.answer)


def read_sessions(events: Iterable[Event], attacked: Set[str] = frozenset()) -> list[RecordedSession]:
    """Return the sessions of the events, in the order of their first events.

    ``attacked`` are the names of scenarios with context attacks.
    """
    grouped: dict[str, list[Event]] = {}
    for event in events:
        grouped.setdefault(event.session_id, []).append(event)
    return [_read(session_id, grouped[session_id], attacked) for session_id in grouped]


def _read(session_id: str, events: list[Event], attacked: Set[str]) -> RecordedSession:
    labels = read_labels(events)
    met: set[str] = {fault.category for fault in labels.faults}
    is_attacked = "context_attacks" in met or labels.scenario in attacked
    stamps = {ROLE: ANSWER, PROMPT: labels.prompt, ATTACKED: "true" if is_attacked else "false"}
    # By the exact type: to tell that a struct is no instance of a class takes longer.
    turns = [number for number, event in enumerate(events) if type(event) is Turn]
    answers = [number for number in turns if events[number].labels.get(ROLE) == ANSWER]
    if not answers and not any(events[number].labels.get(ROLE) in _ROLES for number in turns):
        answers = turns[-1:]  # without roles, the last turn is the answer
    for number in answers:
        events[number] = replace(events[number], labels={**events[number].labels, **stamps})
    answer = events[answers[-1]] if answers else None
    if any(shows_tool_fault(event) for event in events):
        met.add("tool_faults")
    return RecordedSession(session_id, tuple(events), labels, answer if type(answer) is Turn else None, frozenset(met))


def answer_text(turn: Turn) -> str:
    """Return the text of a turn as rules see it: its text blocks, joined by line breaks."""
    content = turn.response.get("content")
    if isinstance(content, str):
        return content
    texts = (block.get("text") for block in _blocks(turn) if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def calls_tools(session: RecordedSession) -> bool:
    """Whether the recording contains any tool call."""
    return any(
        isinstance(event, ToolCall | ToolResult)
        or (isinstance(event, Turn) and any(block.get("type") == "tool_use" for block in _blocks(event)))
        for event in session.events
    )


def _blocks(turn: Turn) -> list[dict[str, Json]]:
    content = turn.response.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
