"""The tracker: raw events become what rules may rely on.

One attempt is counted once, a result finds its call, every event knows its turn, and a session is
split into the parts that a user began.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import force_setattr

from stream_guard.counts import Counts
from stream_guard.engine import Engine
from stream_guard.engine.fold import Found
from stream_guard.model import (
    Event,
    GateDecision,
    Json,
    SessionEnd,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from stream_guard.sessions.session import Open, Session

# Reasons that say "I am waiting for a tool": the answer is still to come.
_CONTINUES: Final = frozenset(("tool_use", "tool_calls"))


class Tracker:
    """Applies events to sessions, in order, and shows them to the engine."""

    def __init__(self, engine: Engine, counts: Counts, *, max_open_calls: int = 256) -> None:
        self._engine = engine
        self._counts = counts
        self._max_open_calls = max_open_calls
        self._apply = {
            UserMessage: self._user_message,
            Turn: self._turn,
            ToolCall: self._tool_call,
            GateDecision: self._decision,
            ToolResult: self._tool_result,
        }

    def apply(self, event: Event, session: Session, out: Found) -> None:
        """Fold one event; the caller has dropped duplicates and taken care of time and of the end."""
        session.seq += 1
        event_id = event.event_id
        if not event_id or event_id[0] == "~":
            # No id at the source: the content's digest and the place in the session make one that a replay repeats.
            event_id = f"{event_id or '~'}.{session.seq}"
            force_setattr(event, "event_id", event_id)
        session.session_id = event.session_id
        if event.run_id:
            session.run_id = event.run_id
        if event.agent:
            session.agent = event.agent
        if event.labels:
            session.labels = event.labels
        self._counts.events[type(event)] += 1
        if event.part and event.part != session.explicit_part:
            self._begin_part(session, out, name=event.part)
        self._apply[type(event)](event, session, out)  # type: ignore[operator]  # each takes its own event type
        session.last_event_id = event_id

    def _begin_part(self, session: Session, out: Found, *, name: str = "") -> None:
        if session.part_active:
            end = SessionEnd(session_id=session.session_id, event_id=session.last_event_id, time=session.now)
            self._engine.end(session, end, out, part_only=True)
            session.part += 1
            session.part_active = False
        session.explicit_part = name

    def _user_message(self, message: UserMessage, session: Session, out: Found) -> None:
        if not message.part:
            self._begin_part(session, out)
            session.fresh_part = True
        force_setattr(message, "index", session.turns - 1)
        self._see(message, session, out)

    def _turn(self, turn: Turn, session: Session, out: Found) -> None:
        if not turn.part and not session.fresh_part and opens_part(turn, after_answer=session.answered):
            self._begin_part(session, out)
        session.fresh_part = False
        session.part_active = True
        stop_reason = turn.response.get("stop_reason")
        session.answered = stop_reason not in _CONTINUES
        content = turn.response.get("content")
        texts: list[str] = []
        blocks: list[dict[str, Json]] = []
        if isinstance(content, list):
            for block in content:
                if isinstance(block, dict):
                    if block.get("type") == "text":
                        if isinstance(block.get("text"), str):
                            texts.append(block["text"])
                    elif block.get("type") == "tool_use":
                        blocks.append(block)
        elif isinstance(content, str):
            texts.append(content)
        index = session.turns
        session.turns = index + 1
        force_setattr(turn, "index", index)
        force_setattr(turn, "text", texts[0] if len(texts) == 1 else "\n".join(texts))
        force_setattr(turn, "tools", tuple([_name(block) for block in blocks]))
        self._see(turn, session, out)
        for number, block in enumerate(blocks):
            self._tool_call(_call_of(turn, number, block), session, out, in_block=True)

    def _tool_call(self, call: ToolCall, session: Session, out: Found, *, in_block: bool = False) -> None:
        if self._is_known(call, session, in_block=in_block):
            self._counts.merged_calls += 1
            return
        session.part_active = True
        attempt = session.attempts
        session.attempts = attempt + 1
        index = session.turns - 1
        force_setattr(call, "index", index)
        force_setattr(call, "attempt", attempt)
        if len(session.open) >= self._max_open_calls:
            del session.open[0]
            self._counts.evictions["open_calls"] += 1
        session.open.append(
            Open(call.call_id, call.tool, attempt, index, in_block, not in_block, 0, call.args)
        )
        self._see(call, session, out)

    def _is_known(self, call: ToolCall, session: Session, *, in_block: bool) -> bool:
        """Whether this is another sighting of an attempt that is still open.

        A block and an event meet once. Two events meet when they share an id; without one they are two
        attempts. Two blocks never meet, even under one id: a model that asks twice asks twice.
        """
        for known in reversed(session.open):
            if known.call_id != call.call_id:
                continue
            if in_block:
                meets = known.in_event and not known.in_block
            else:
                meets = (known.in_block and not known.in_event) or (known.in_event and call.call_id != "")
            if meets and known.same_call(call.tool, call.args):
                if in_block:
                    known.in_block = True
                else:
                    known.in_event = True
                return True
        return False

    def _decision(self, decision: GateDecision, session: Session, out: Found) -> None:
        call = _open_call(decision, session)
        force_setattr(decision, "index", call.index if call else session.turns - 1)
        force_setattr(decision, "attempt", call.attempt if call else -1)
        if call and not decision.tool:
            force_setattr(decision, "tool", call.tool)
        self._see(decision, session, out)

    def _tool_result(self, result: ToolResult, session: Session, out: Found) -> None:
        call = _open_call(result, session)
        if call is None:
            self._counts.unpaired_results += 1
        else:
            session.open.remove(call)
            if not result.tool:
                force_setattr(result, "tool", call.tool)
        force_setattr(result, "index", call.index if call else session.turns - 1)
        force_setattr(result, "attempt", call.attempt if call else -1)
        self._see(result, session, out)

    def _see(self, event: Event, session: Session, out: Found) -> None:
        self._engine.observe(event, session, out)


def _open_call(event: ToolResult | GateDecision, session: Session) -> Open | None:
    """Find the latest open call of that id; ids repeat in real traces, and some sources have none."""
    for call in reversed(session.open):
        if call.call_id == event.call_id if event.call_id else call.tool == event.tool:
            return call
    return None


def _name(block: dict[str, Json]) -> str:
    name = block.get("name")
    return name if isinstance(name, str) else ""


def _call_of(turn: Turn, number: int, block: dict[str, Json]) -> ToolCall:
    call_id = block.get("id")
    return ToolCall(
        session_id=turn.session_id,
        event_id=f"{turn.event_id}/{number}",
        time=turn.time,
        trace_id=turn.trace_id,
        run_id=turn.run_id,
        agent=turn.agent,
        agent_path=turn.agent_path,
        labels=turn.labels,
        part=turn.part,
        captured=turn.captured,
        tool=_name(block),
        call_id=call_id if isinstance(call_id, str) else "",
        args=block.get("input"),
    )


def opens_part(turn: Turn, *, after_answer: bool) -> bool:
    """Whether the turn's request begins a user-initiated part of the session."""
    if turn.request is None or not turn.captured:
        return False  # without the request, or its messages, there is nothing to go by
    messages = turn.request.get("messages")
    if after_answer or not isinstance(messages, list):
        return True
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") != "system":
            return _is_user(message)
    return True


def _is_user(message: dict[str, Json]) -> bool:
    """Whether a person speaks; Anthropic sends tool results in the user's role."""
    if message.get("role") != "user":
        return False
    content = message.get("content")
    return not (
        isinstance(content, list)
        and content
        and all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)
    )
