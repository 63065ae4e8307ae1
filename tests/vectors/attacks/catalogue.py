"""What a case says of the tools' schemas, and of who hands arguments over: calls as an integration makes them of it."""

from __future__ import annotations

from typing import Any, Final

from stream_guard.integrations.attempts import as_handed_over
from stream_guard.judge.arguments import Executor
from tests.vectors.case import CannotRunError

_EXECUTORS: Final[dict[str, Executor]] = {
    "mcp": "mcp",
    "openai-agents": "pydantic",
    "langchain": "pydantic",
    "plain": "unknown",
}


class Catalogue:
    """The schemas of a case, by tool."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._schemas = case.get("catalogue", {})
        executor = case.get("executor", "plain")
        if executor not in _EXECUTORS:
            raise CannotRunError(f"this runner does not know the executor {executor}")
        self._executor = _EXECUTORS[executor]

    def complete(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return a call with its arguments as the tool gets them, where its schema is known."""
        schema = self._schemas.get(call.get("tool"))
        if schema is None or "args" not in call:
            return call
        args, handed = as_handed_over(call["args"], schema, self._executor)
        return call | {"args": args} | ({} if handed is None else {"handed": handed})
