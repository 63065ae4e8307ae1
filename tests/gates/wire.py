"""A client's connection to gates: plain HTTP that stays open; a client library would take longer than the gates."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Self


class Unanswered(Exception):  # noqa: N818  (what gates do that are killed)
    """No judgement came: the gate went away, or said that it could not judge."""


class Connections:
    """The connections of one client, one to each gate that it has asked."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for url in list(self._open):
            self._close(url)

    async def post(self, url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a gate; Unanswered without one."""
        try:
            return await self._post(url, path, body)
        except (OSError, EOFError, asyncio.IncompleteReadError, ValueError) as error:
            self._close(url)
            raise Unanswered(str(error)) from error
        except asyncio.CancelledError:
            self._close(url)
            raise

    async def _post(self, url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        host = url.removeprefix("http://")
        if url not in self._open:
            for gone in [known for known, (reader, _) in self._open.items() if reader.at_eof() or reader.exception()]:
                self._close(gone)  # of gates that were killed: a long run would keep thousands
            name, _, port = host.partition(":")
            self._open[url] = await asyncio.open_connection(name, int(port))
        reader, writer = self._open[url]
        content = json.dumps(body).encode()
        head = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
        writer.write("\r\n".join((*head, f"Content-Length: {len(content)}", "", "")).encode() + content)
        status, _, rest = (await reader.readuntil(b"\r\n\r\n")).decode().lower().partition("\r\n")
        length = int(rest.partition("content-length: ")[2].partition("\r\n")[0])
        answer: dict[str, Any] = json.loads(await reader.readexactly(length))
        if " 200" not in status:
            raise ValueError(f"{status}: {answer}")
        return answer

    def _close(self, url: str) -> None:
        if url in self._open:
            self._open.pop(url)[1].close()
