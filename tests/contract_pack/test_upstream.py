"""The HTTP client of the proxies: a connection that the tool closes just when it is used again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest
from stream_guard_contract.proxies import Reply, UpstreamError, ask

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class ClosingTool:
    """Answers the first request of its first connection, and closes that at the second one."""

    def __init__(self) -> None:
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        closes = self.connections == 1
        while not reader.at_eof():
            head = await reader.readuntil(b"\r\n\r\n")
            if closes and b"/again" in head:
                break
            writer.write(ANSWER)
            await writer.drain()
            if not closes:
                break
        writer.close()


async def with_tool(work: Callable[[str], Awaitable[Reply]]) -> Reply:
    tool = ClosingTool()
    server = await asyncio.start_server(tool.serve, "127.0.0.1", 0)
    async with server:
        return await work(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


def ask_twice(method: str) -> Reply:
    async def work(url: str) -> Reply:
        async with httpx.AsyncClient() as client:
            assert (await ask(client, "GET", f"{url}/first", {}, b"")).body == b"ok"
            return await ask(client, method, f"{url}/again", {}, b"")

    return asyncio.run(with_tool(work))


def test_what_changes_nothing_is_asked_again_on_a_new_connection() -> None:
    assert ask_twice("GET").body == b"ok"


def test_what_may_change_something_is_not() -> None:
    with pytest.raises(UpstreamError, match="disconnected"):
        ask_twice("POST")
