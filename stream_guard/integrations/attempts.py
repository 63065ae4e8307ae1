"""What all frameworks share: check an attempt, word a refusal, and report the result."""

from __future__ import annotations

import logging
import time
from typing import Any, Literal
from uuid import uuid4

import msgspec

from stream_guard.agent_hooks.asking import refusal
from stream_guard.errors import StreamGuardError
from stream_guard.guard.gate import PROBE, Gate, Ruling
from stream_guard.judge.arguments import Arguments, Executor, bounded, hand_over, read_arguments
from stream_guard.judge.model import Action, Json, ToolCall, ToolResult

_logger = logging.getLogger(__name__)


class SessionEndedError(StreamGuardError):
    """A rule ended the session: the agent must stop, and every later attempt is refused."""


class Attempt:
    """One tool call on its way through the gate. ``schema`` is that of the tool's arguments, where it is known.

    ``executor`` says how the arguments are fitted to it before the tool gets them.
    """

    def __init__(
        self,
        gate: Gate,
        session_id: str,
        tool: str,
        args: Json,
        call_id: str,
        agent: str = "",
        schema: Json = None,
        executor: Executor = "unknown",
    ) -> None:
        self._gate = gate
        args, handed = as_handed_over(args, schema, executor)
        self._call = ToolCall(
            session_id=session_id,
            # Not the call's id: some models number their calls from 0 in every turn.
            event_id=uuid4().hex,
            time=time.time(),
            tool=tool,
            args=args,
            handed=handed,
            call_id=call_id,
            agent=agent,
        )

    def check(self, *, may_modify: bool = False) -> Ruling:
        """Return the gate's ruling. A gate that fails blocks. A refused attempt gets its result at once.

        ``may_modify``: the framework can run the tool with other arguments.
        """
        try:
            ruling = self._gate.check(self._call, may_modify=may_modify)
        except Exception as error:  # of any sort: the tool must not run because the gate failed
            _logger.exception("an attempt was blocked because the gate failed")
            return Ruling(action=Action.BLOCK, reason=f"the gate failed: {error}")
        if ruling.action not in (Action.ALLOW, Action.MODIFY) and self._call.tool != PROBE:
            self.report("blocked")  # also when paused: the framework continues, and a later try is another attempt
        return ruling

    def report(self, status: Literal["ok", "error", "blocked"], output: Any = None) -> None:
        """Report the result. An error in judging it must not fail a tool that has run."""
        result = ToolResult(
            session_id=self._call.session_id,
            event_id=uuid4().hex,
            time=time.time(),
            call_id=self._call.call_id,
            tool=self._call.tool,
            status=status,
            output=_plain(output),
            agent=self._call.agent,
        )
        try:
            self._gate.observe(result)
        except StreamGuardError:
            _logger.exception("a tool's result could not be judged")


def as_handed_over(args: Json, schema: Json, executor: Executor) -> tuple[Json, tuple[Json, ...] | None]:
    """Return the arguments as the tool gets them, and what it may get instead; None where that is not known.

    Text that readers differ on, or cannot read, stays text.
    """
    value, unreadable, contested = read_arguments(args) if isinstance(args, str) else Arguments(bounded(args))
    if unreadable or contested:
        return args, None
    handed = hand_over(value, schema, executor)
    return (value, None) if handed is None else handed


def refusal_text(ruling: Ruling) -> str:
    """Return the text that the model gets instead of a result: the same as over HTTP."""
    alerts = [{"rule_id": one.rule_id, "reason": one.reason, "detail": one.detail} for one in ruling.alerts]
    said: dict[str, Any] = {"action": ruling.action.word, "reason": ruling.reason, "advice": ruling.advice}
    review = {"id": ruling.review.id} if ruling.review is not None else None
    return refusal({**said, "alerts": alerts, "review": review})


def _plain(output: Any) -> Json:
    """Return an output as JSON; an object that is not JSON becomes its text."""
    try:
        return msgspec.to_builtins(output)
    except (TypeError, ValueError):
        return str(output)
