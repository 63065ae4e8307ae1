"""A gate over HTTP in a thread of the test: the application of ``stream-guard serve`` on a port of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import uvicorn

from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.serve.access import TokenDoor
from stream_guard.serve.app import make_app
from stream_guard.serve.service import Service
from stream_guard.serve.tokens import TokenFile
from stream_guard.settings import ApiSettings, Settings

REGISTRY = build_registry()


@contextmanager
def serving(
    folder: Path, policy: str, *, tokens: Path | None = None, limit: int = 8 * 2**20
) -> Iterator[tuple[str, Gate]]:
    """Serve a gate; yields its address and the gate itself."""
    database = SqliteDatabase(folder / "history.db")
    gate = Gate(load_policy(policy, REGISTRY), database)
    service = Service(gate, ApiSettings(max_body_bytes=limit))
    decoder = Assembly(Settings(), REGISTRY).make_decoder("native")
    door = TokenDoor(TokenFile(tokens)) if tokens is not None else None
    config = uvicorn.Config(make_app(service, decoder, door), lifespan="off", log_config=None, access_log=False)
    server, listening = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", gate
    finally:
        server.should_exit = True
        thread.join()
        service.close()
        database.close()
        listening.close()
