"""One call of a wrapped model: the fault that it meets, what is recorded, and what the agent gets back."""

from __future__ import annotations

from typing import Any

from stream_guard_contract.faults.effects import ErrorReply, distort, error_reply, llm_delay
from stream_guard_contract.recording.labels import FaultId
from stream_guard_contract.scenario.completions import Completion
from stream_guard_contract.scenario.scenario_run import ScenarioRun


class WrappedModelCall:
    """One call of a wrapped model: its arguments after the attacks, and what the agent gets back."""

    def __init__(self, run: ScenarioRun, args: tuple[Any, ...]) -> None:
        self._run = run
        self._call = run.begin_model_call({"messages": args[0] if args else None})
        self._triggered = self._call.triggered
        self.delay = llm_delay(self._triggered.fault) if self._triggered is not None else 0.0
        self.args = (self._call.request["messages"], *args[1:]) if args else args

    def replaced(self) -> ErrorReply | None:
        """Record the error of a fault that replaces the call, and return it; None for other faults, and without any."""
        triggered = self._triggered
        reply = error_reply(triggered.fault) if triggered is not None else None
        if triggered is not None and reply is not None:
            self._end(reply.body, [triggered.fault_id])
        return reply

    def fail(self, error: Exception) -> None:
        """Record that the model itself raised an error."""
        self._end(f"{type(error).__name__}: {error}", [])

    def answer(self, result: Any) -> Any:
        """Record the answer and return it as the agent gets it; anything but a text is returned unchanged."""
        if not isinstance(result, str):
            self._end(Completion(text=str(result), finish="stop"), [])
            return result
        changed = str(distort(result, self._triggered.fault)) if self._triggered is not None else result
        met = [self._triggered.fault_id] if self._triggered and changed != result else []
        self._end(Completion(text=changed, finish="stop"), met)
        return changed

    def _end(self, completion: Completion | str, met: list[FaultId]) -> None:
        self._run.end_model_call(self._call, completion, met)
