"""MCP: middleware of a server, so that every client's calls pass the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from stream_guard.guard.gate import PROBE, Gate
from stream_guard.integrations.attempts import Attempt, refusal_text
from stream_guard.judge.model import Action

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext


class ToolMiddleware:
    """``MCPServer(..., middleware=[ToolMiddleware(gate, session_id)])`` puts the gate before every tool.

    A refused call returns a tool error with a text for the model. A server cannot end its client's session: after
    ``terminate_session`` every call of that session is refused. Rules see arguments as the tool gets them: the
    middleware asks the server for the schemas of its tools, once, and again for a tool that it does not know.
    """

    def __init__(self, gate: Gate, session_id: str | Callable[[ServerRequestContext[Any, Any]], str]) -> None:
        self._gate = gate
        self._session_id = session_id
        self._schemas: dict[str, Any] = {}

    async def __call__(
        self,
        ctx: ServerRequestContext[Any, Any],
        call_next: Callable[[ServerRequestContext[Any, Any]], Awaitable[HandlerResult]],
    ) -> HandlerResult:
        """Check a tool call; pass on any other request."""
        from mcp.types import CallToolResult, TextContent  # noqa: PLC0415  (an extra)

        if ctx.method != "tools/call" or ctx.request_id is None:
            result = await call_next(ctx)
            if ctx.method == "tools/list":
                self._schemas.update(schemas_in(result))
            return result
        params = ctx.params or {}
        session = self._session_id if isinstance(self._session_id, str) else self._session_id(ctx)
        tool, args = params.get("name"), params.get("arguments") or {}
        if not isinstance(tool, str):
            return await call_next(ctx)  # not a valid call: the server reports what is wrong with it
        if tool not in self._schemas and tool != PROBE:
            self._schemas.update(await list_schemas(ctx, call_next))
        schema = self._schemas.get(tool)
        attempt = Attempt(self._gate, session, tool, args, str(ctx.request_id), schema=schema, executor="mcp")
        ruling = await asyncio.to_thread(attempt.check, may_modify=True)
        if ruling.action is Action.MODIFY:
            ctx = replace(ctx, params={**params, "arguments": ruling.args})
        elif ruling.action is not Action.ALLOW:
            return CallToolResult(content=[TextContent(text=refusal_text(ruling))], is_error=True)
        try:
            result = await call_next(ctx)
        except Exception as error:
            await asyncio.to_thread(attempt.report, "error", str(error))
            raise
        await asyncio.to_thread(attempt.report, "error" if _failed(result) else "ok", result)
        return result

    def probe(self) -> bool:
        """Send a probe through the middleware; True when it was refused before the server saw it."""
        from mcp.server.context import ServerRequestContext  # noqa: PLC0415  (an extra)

        reached: list[object] = []

        async def next_one(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
            reached.append(ctx)
            return {}

        no_session: Any = None
        ctx = ServerRequestContext[Any, Any](
            session=no_session,
            lifespan_context=None,
            protocol_version="",
            method="tools/call",
            params={"name": PROBE, "arguments": {}},
            request_id=PROBE,
        )
        answer = asyncio.run(self(ctx, next_one))
        return not reached and _failed(answer)


def _failed(result: Any) -> bool:
    return bool(result.get("isError") if isinstance(result, dict) else getattr(result, "is_error", False))


_MOST_PAGES: Final = 50  # of a list of tools


async def list_schemas(
    ctx: ServerRequestContext[Any, Any], call_next: Callable[[ServerRequestContext[Any, Any]], Awaitable[HandlerResult]]
) -> dict[str, Any]:
    """Return the schemas of the server's tools by name; none where it does not list them."""
    found: dict[str, Any] = {}
    params = {key: value for key, value in (ctx.params or {}).items() if key == "_meta"}
    for _ in range(_MOST_PAGES):
        try:
            listed = await call_next(replace(ctx, method="tools/list", params=params))
        except Exception:  # noqa: BLE001  # of any sort: without schemas the gate looks closer
            break
        found |= schemas_in(listed)
        params = {**params, "cursor": _field(listed, "nextCursor", "next_cursor")}
        if not params["cursor"]:
            break
    return found


def schemas_in(listed: Any) -> dict[str, Any]:
    """Return the schemas of the tools in a list of them, by name."""
    tools = _field(listed, "tools")
    named = [(_field(tool, "name"), _field(tool, "inputSchema", "input_schema")) for tool in tools or ()]
    return {name: schema for name, schema in named if isinstance(name, str)}


def _field(value: Any, *names: str) -> Any:
    """Return a field of a result, which is an object or what it becomes on the wire."""
    for name in names:
        found = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
        if found is not None:
            return found
    return None
