"""The schemas of an MCP server's tools, as the server lists them: its executor fits arguments to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext

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
