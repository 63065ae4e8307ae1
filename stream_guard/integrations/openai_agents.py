"""OpenAI Agents SDK: guardrails on function tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stream_guard.guard.gate import PROBE, Gate
from stream_guard.integrations.attempts import Attempt, refusal_text
from stream_guard.judge.model import Action

if TYPE_CHECKING:
    from agents import FunctionTool, ToolGuardrailFunctionOutput, ToolInputGuardrailData, ToolOutputGuardrailData
    from agents.tool_context import ToolContext


class ToolGate:
    """Checks calls of the function tools passed to ``watch``, and reports their results.

    Block and pause answer the model with a text instead of a result; ``terminate_session`` ends the run with
    ``ToolInputGuardrailTripwireTriggered``. After an approval, the model's next try of the same call goes through.
    """

    def __init__(self, gate: Gate, session_id: str | Callable[[ToolContext[Any]], str]) -> None:
        from agents import ToolInputGuardrail, ToolOutputGuardrail  # noqa: PLC0415  (an extra)

        self._gate = gate
        self._session_id = session_id
        self.before = ToolInputGuardrail[Any](self._before, name="stream_guard")
        self.behind = ToolOutputGuardrail[Any](self._behind, name="stream_guard")

    def watch(self, *tools: FunctionTool) -> None:
        """Put the gate before each tool, in front of other guardrails."""
        for tool in tools:
            tool.tool_input_guardrails = [self.before, *(tool.tool_input_guardrails or ())]
            tool.tool_output_guardrails = [self.behind, *(tool.tool_output_guardrails or ())]

    def probe(self) -> bool:
        """Send a probe through the registered function; True when it was blocked."""
        from agents import Agent, ToolInputGuardrailData  # noqa: PLC0415  (an extra)
        from agents.tool_context import ToolContext  # noqa: PLC0415

        agent = Agent[Any](name=PROBE)
        context = ToolContext[Any](None, tool_name=PROBE, tool_call_id=PROBE, tool_arguments="{}", agent=agent)
        answer = self._before(ToolInputGuardrailData(context=context, agent=agent))
        return answer.behavior["type"] == "reject_content"

    def _attempt(self, data: ToolInputGuardrailData) -> Attempt:
        context = data.context
        session = self._session_id if isinstance(self._session_id, str) else self._session_id(context)
        name, agent = context.tool_name, data.agent
        schema: Any = next((getattr(tool, "params_json_schema", {}) for tool in agent.tools if tool.name == name), {})
        called = context.tool_call_id
        return Attempt(self._gate, session, name, context.tool_arguments, called, agent.name, schema, "pydantic")

    def _before(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        from agents import ToolGuardrailFunctionOutput  # noqa: PLC0415  (an extra)

        ruling = self._attempt(data).check()
        if ruling.action is Action.ALLOW:
            return ToolGuardrailFunctionOutput.allow()
        if ruling.action is Action.TERMINATE_SESSION:
            return ToolGuardrailFunctionOutput.raise_exception(refusal_text(ruling))
        return ToolGuardrailFunctionOutput.reject_content(refusal_text(ruling))

    def _behind(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        from agents import ToolGuardrailFunctionOutput  # noqa: PLC0415  (an extra)

        self._attempt(data).report("ok", data.output)
        return ToolGuardrailFunctionOutput.allow()
