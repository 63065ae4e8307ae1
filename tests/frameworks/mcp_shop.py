"""Real MCP servers: ``python -m tests.frameworks.mcp_shop FILE`` speaks over its pipes, with the tools of ``world``.

With ``asker`` in place of a file it is one whose tool asks the model of its client.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from warnings import catch_warnings

from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import SamplingMessage, TextContent

TOOLS = ("read", "drop", "pay", "leak")


def make_shop(ran: Callable[[str], None]) -> Any:
    """Return a server; ``ran`` is told of each tool that runs, with what it got."""
    shop = MCPServer("shop", instructions="Sells things.")

    def tool_of(name: str) -> Callable[[int, str], str]:
        def body(amount: int, note: str = "") -> str:
            ran(f"{name} {amount} {note}".strip())
            return f"{name} is done: {note}"

        return body

    for name in TOOLS:
        shop.add_tool(tool_of(name), name=name, description=f"Does {name}.")
    return shop


def make_asker() -> Any:
    """Return a server whose tool asks the model of its client."""
    asker = MCPServer("asker")

    async def ask(said: str, context: Context) -> str:
        message = SamplingMessage(role="user", content=TextContent(type="text", text=said))
        with catch_warnings(action="ignore"):  # sampling goes out of use
            asking = context.session.create_message([message], max_tokens=5)
        try:
            answer: Any = await asking
        except MCPError as error:
            return str(error)
        return f"the model says {answer.content.text}"

    asker.add_tool(ask, name="ask", description="Asks.")
    return asker


def main(notes: Path) -> None:
    """Serve over standard input and output."""

    def note(line: str) -> None:
        with notes.open("a", encoding="utf-8") as opened:
            opened.write(line + "\n")

    make_shop(note).run("stdio")


if __name__ == "__main__":
    if sys.argv[1] == "asker":
        make_asker().run("stdio")
    else:
        main(Path(sys.argv[1]))
