"""A real MCP server with the tools of ``world``: ``python -m tests.frameworks.mcp_shop FILE`` speaks over its pipes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

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


def main(notes: Path) -> None:
    """Serve over standard input and output."""

    def note(line: str) -> None:
        with notes.open("a", encoding="utf-8") as opened:
            opened.write(line + "\n")

    make_shop(note).run("stdio")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
