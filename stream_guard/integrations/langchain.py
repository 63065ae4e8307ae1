"""LangChain and LangGraph: middleware around tool calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stream_guard.guard.gate import PROBE, Gate
from stream_guard.integrations.attempts import Attempt, SessionEndedError, refusal_text
from stream_guard.judge.model import Action

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
    from langchain.messages import ToolMessage


def make_middleware(
    gate: Gate, session_id: str | Callable[[ToolCallRequest], str] | None = None, *, agent: str = ""
) -> AgentMiddleware[Any, Any]:
    """Return middleware for ``create_agent``; the session is the thread's id unless it is given.

    Block and pause answer the model with an error message instead of a result; ``terminate_session`` raises
    SessionEndedError out of the agent. After an approval, the model's next try of the same call goes through.
    """
    from langchain.agents.middleware import AgentMiddleware, ToolCallRequest  # noqa: PLC0415  (an extra)

    def attempt_of(request: ToolCallRequest) -> Attempt:
        call, session = request.tool_call, _session(request, session_id)
        schema = _schema(request.tool)
        return Attempt(gate, session, call["name"], call["args"], call["id"] or "", agent, schema, "pydantic")

    class GateMiddleware(AgentMiddleware[Any, Any]):
        """Checks a call before the tool runs, and reports its result."""

        name = "stream_guard"

        def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
            attempt = attempt_of(request)
            refused = _refuse(attempt, request.tool_call["id"])
            return refused or _report(attempt, _run(attempt, handler, request))

        async def awrap_tool_call(
            self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
        ) -> Any:
            attempt = attempt_of(request)
            refused = _refuse(attempt, request.tool_call["id"])
            if refused is not None:
                return refused
            try:
                result = await handler(request)
            except Exception as error:
                attempt.report("error", str(error))
                raise
            return _report(attempt, result)

        def probe(self) -> bool:
            """Send a probe through the middleware; True when it was refused before a tool could run."""
            no_runtime: Any = None
            call: Any = {"name": PROBE, "args": {}, "id": PROBE, "type": "tool_call"}
            request = ToolCallRequest(tool_call=call, tool=None, state={}, runtime=no_runtime)
            return self.wrap_tool_call(request, lambda _: None) is not None

    return GateMiddleware()


def _schema(tool: Any) -> Any:
    """Return the JSON Schema by which LangChain fits arguments; a tool with a plain schema gets them as they are."""
    fitted_by = getattr(tool, "args_schema", None)
    return _schema_of(fitted_by) if isinstance(fitted_by, type) else None


@lru_cache(maxsize=256)
def _schema_of(model: Any) -> Any:
    """Return the schema of a model, which takes as long to make as many checks; None where it has none."""
    try:
        return model.model_json_schema()
    except Exception:  # noqa: BLE001  # of any sort: a model may hold what JSON Schema cannot say
        return None


def _session(request: ToolCallRequest, session_id: str | Callable[[ToolCallRequest], str] | None) -> str:
    if request.tool_call["name"] == PROBE:
        return PROBE
    if session_id is not None:
        return session_id if isinstance(session_id, str) else session_id(request)
    thread = request.runtime.config.get("configurable", {}).get("thread_id")
    if not thread:
        raise ValueError("the gate needs a session: give make_middleware a session_id, or the run a thread_id")
    return str(thread)


def _refuse(attempt: Attempt, call_id: str | None) -> ToolMessage | None:
    from langchain.messages import ToolMessage  # noqa: PLC0415  (an extra)

    ruling = attempt.check()
    if ruling.action is Action.ALLOW:
        return None
    if ruling.action is Action.TERMINATE_SESSION:
        raise SessionEndedError(refusal_text(ruling))
    return ToolMessage(refusal_text(ruling), tool_call_id=call_id or "", status="error")


def _run(attempt: Attempt, handler: Callable[[ToolCallRequest], Any], request: ToolCallRequest) -> Any:
    try:
        return handler(request)
    except Exception as error:
        attempt.report("error", str(error))
        raise


def _report(attempt: Attempt, result: Any) -> Any:
    failed = getattr(result, "status", "") == "error"
    attempt.report("error" if failed else "ok", getattr(result, "content", None))
    return result
