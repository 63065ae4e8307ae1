"""A gate for tests that ask it over a wire: its parts, and servers for it in threads of this process."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any, Final

import uvicorn

from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import Event
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.serve.access import Door, TokenDoor
from stream_guard.serve.app import OwnGate, make_app
from stream_guard.serve.service import Service
from stream_guard.serve.tokens import TokenFile
from stream_guard.settings import ApiSettings, Settings

REGISTRY: Final = build_registry()
POLICY: Final = """
rules:
  - {id: drop, kind: no_call, params: {tool: drop}, then: block, reason: drop is watched}
  - {id: pay, kind: no_call, params: {tool: pay}, then: pause, reason: pay is watched}
  - {id: leak, kind: no_call, params: {tool: leak}, then: terminate_session, reason: leak is watched}
  - {id: three, kind: max_calls, params: {tool: read, n: 3}, then: block}
  - {id: tools, kind: no_tool_change, params: {}, then: block}
  - {id: secret, kind: forbidden_text, params: {where: tool_result, pattern: hunter2}, then: block}
  - id: cap
    kind: no_call
    params: {tool: refund}
    when: {path: tool.args.amount, op: ">", value: 100}
    then: modify
    modify: [{path: amount, cap: 100}]
  - id: keys
    kind: forbidden_text
    params: {where: tool_args, pattern: 'sk-[a-z]+'}
    then: modify
    modify: [{mask: 'sk-[a-z]+'}]
"""


class OpenedGate:
    """A gate over a history of its own, in the service that every wire asks, and the events that it emitted."""

    def __init__(self, folder: Path, policy: str = POLICY, **api: Any) -> None:
        self.database = SqliteDatabase(folder / "history.db")
        self.emitted: list[Event] = []
        self.gate = Gate(load_policy(policy, REGISTRY), self.database, emit=self.emitted.append)
        self.service = Service(self.gate, ApiSettings(**api))
        self.decoder = Assembly(Settings(), REGISTRY).make_decoder("native")

    def app(self, door: Door | None = None) -> Any:
        """Return the application of ``stream-guard serve``."""
        return make_app(self.service, self.decoder, door)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the thread that judges do nothing meanwhile."""
        go = Flag()
        self.service.submit(go.wait)
        try:
            yield
        finally:
            go.set()
            self.service.submit(int).result()

    def audited(self, what: str = "decision") -> list[dict[str, Any]]:
        """Return the records of the audit."""
        rows = self.database.read("SELECT body FROM sg_audit ORDER BY number")
        return [record for (body,) in rows if (record := json.loads(body)).get("what") == what]

    def approve_all(self) -> None:
        """Let a person approve whatever waits for one."""
        for review in self.gate.reviews.listing("open"):
            self.gate.reviews.approve(review.id, by="ada", arguments_digest=review.arguments_digest)

    def close(self) -> None:
        """Close what was opened."""
        self.service.close()
        self.database.close()


@contextmanager
def opened_gate(folder: Path, policy: str = POLICY, **api: Any) -> Iterator[OpenedGate]:
    """Open a gate for the block."""
    opened = OpenedGate(folder, policy, **api)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def own_gate(folder: Path, policy: str = POLICY) -> Iterator[tuple[OwnGate, Gate]]:
    """Open a gate that is asked in this process, as a proxy asks its own."""
    with opened_gate(folder, policy) as opened:
        own = OwnGate(opened.service, opened.decoder)
        try:
            yield own, opened.gate
        finally:
            own.close()


@contextmanager
def running(app: Any, path: str = "", client: Any = None) -> Iterator[str]:
    """Serve an application on a port of this machine; its client is closed in the loop that used it."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1, loop="asyncio")
    server = uvicorn.Server(config)

    async def serve() -> None:
        await server.serve([listening])
        if client is not None:
            await client.aclose()

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}{path}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@contextmanager
def serving(
    folder: Path, policy: str = POLICY, *, tokens: Path | None = None, limit: int = 8 * 2**20
) -> Iterator[tuple[str, Gate]]:
    """Serve a gate over HTTP; yields its address and the gate itself."""
    door = TokenDoor(TokenFile(tokens)) if tokens is not None else None
    with opened_gate(folder, policy, max_body_bytes=limit) as opened, running(opened.app(door)) as url:
        yield url, opened.gate


@contextmanager
def dying_gate() -> Iterator[str]:
    """A gate that takes every question and closes the connection in the middle of its answer."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")

    thread = Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
