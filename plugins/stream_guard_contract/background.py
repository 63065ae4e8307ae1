"""A thread with an event loop of its own, in which everything that speaks HTTP runs while agents block others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from threading import Thread
from typing import Any, Final, TypeVar

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from stream_guard.errors import SettingsError
from stream_guard_contract import llm_proxy, tool_proxy
from stream_guard_contract.stage import Stage
from stream_guard_contract.upstream import open_client

T = TypeVar("T")

HOST: Final = "127.0.0.1"
_BACKLOG: Final = 512


class Background:
    """Runs coroutines for callers that wait, and the proxies for whoever calls them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="contract-http", daemon=True)
        self._thread.start()
        self._server: uvicorn.Server | None = None
        self._serving: Future[None] | None = None
        self._client: httpx.AsyncClient | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns, or raise what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def open_proxies(self, stage: Stage, tools: Mapping[str, str], model: str, port: int = 0) -> str:
        """Start the proxies on a loopback port, any where none is named; return their address."""
        opened, url = _listen(port)
        self._client = open_client([*tools.values(), *([model] if model else [])])
        routes = [
            Route(f"{tool_proxy.PREFIX}/{{name}}{rest}", handle, methods=list(tool_proxy.METHODS))
            for handle in [tool_proxy.ToolProxy(tools, stage, self._client).handle]
            for rest in ("", "/{rest:path}")
        ]
        if model:
            handle = llm_proxy.LlmProxy(model, stage, self._client).handle
            routes.append(Route(f"{llm_proxy.PREFIX}/{{rest:path}}", handle, methods=list(tool_proxy.METHODS)))
        config = uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            access_log=False,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.run_coroutine_threadsafe(self._server.serve(sockets=[opened]), self._loop)
        return url

    def close(self) -> None:
        """Stop the proxies and the thread; what is asked for afterwards is refused."""
        if self._server is not None and self._serving is not None:
            # No grace: nobody waits for an answer any more, and a fault may sleep for minutes.
            self._server.should_exit = self._server.force_exit = True
            self._serving.result()
        if self._client is not None:
            self.call(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))


def _listen(port: int) -> tuple[socket.socket, str]:
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise SettingsError(
            f"the proxies cannot listen on port {port}: {error.strerror or error}; name another with --proxy-port"
        ) from None
    return opened, f"http://{HOST}:{opened.getsockname()[1]}"
