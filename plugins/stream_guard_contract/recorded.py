"""Recorded sessions made ready for scoring: which cell each belongs to, which turn is the answer, what it met."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

import msgspec
from msgspec.structs import replace

from stream_guard.model import Event, Json, ToolCall, ToolResult, Turn
from stream_guard_contract.labels import (
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


class Recorded(msgspec.Struct, frozen=True):
    """One recorded session: a prompt under a scenario, and all that came of it."""

    session_id: str
    events: tuple[Event, ...]  # the answer carries as labels its role, its prompt, and whether the agent was attacked
    labels: SessionLabels
    answer: Turn | None
    sorts_met: frozenset[str]  # of faults that its events show, whoever caused them

    @property
    def text(self) -> str:
        """What the agent answered in the end; nothing where it did not."""
        return "" if self.answer is None else answer_text(self.answer)


def read_sessions(events: Iterable[Event], attacked: Set[str] = frozenset()) -> list[Recorded]:
    """Return the sessions of the events, in the order in which they begin.

    ``attacked`` are the scenarios in which something is slipped into what the agent reads.
    """
    grouped: dict[str, list[Event]] = {}
    for event in events:
        grouped.setdefault(event.session_id, []).append(event)
    return [_read(session_id, grouped[session_id], attacked) for session_id in grouped]


def _read(session_id: str, events: list[Event], attacked: Set[str]) -> Recorded:
    labels = read_labels(events)
    met: set[str] = {fault.sort for fault in labels.faults}
    is_attacked = "context_attacks" in met or labels.scenario in attacked
    stamps = {ROLE: ANSWER, PROMPT: labels.prompt, ATTACKED: "true" if is_attacked else "false"}
    turns = [number for number, event in enumerate(events) if isinstance(event, Turn)]
    answers = [number for number in turns if events[number].labels.get(ROLE) == ANSWER]
    if not answers and not any(events[number].labels.get(ROLE) in _ROLES for number in turns):
        answers = turns[-1:]  # nobody told: the last word is the answer
    for number in answers:
        events[number] = replace(events[number], labels={**events[number].labels, **stamps})
    answer = events[answers[-1]] if answers else None
    if any(map(shows_tool_fault, events)):
        met.add("tool_faults")
    return Recorded(session_id, tuple(events), labels, answer if isinstance(answer, Turn) else None, frozenset(met))


def answer_text(turn: Turn) -> str:
    """Return the text of a turn as rules see it: its text blocks, joined with a line break."""
    content = turn.response.get("content")
    if isinstance(content, str):
        return content
    said = (block.get("text") for block in _blocks(turn) if block.get("type") == "text")
    return "\n".join(text for text in said if isinstance(text, str))


def calls_tools(session: Recorded) -> bool:
    """Whether the recording shows tools at all."""
    return any(
        isinstance(event, ToolCall | ToolResult)
        or (isinstance(event, Turn) and any(block.get("type") == "tool_use" for block in _blocks(event)))
        for event in session.events
    )


def _blocks(turn: Turn) -> list[dict[str, Json]]:
    content = turn.response.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
