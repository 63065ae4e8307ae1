"""A thread with its own event loop for all HTTP: requests to agents, and the proxies before tools and model."""

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

from stream_guard import SettingsError
from stream_guard_contract.http import llm_proxy, tool_proxy
from stream_guard_contract.http.upstream import open_client
from stream_guard_contract.scenario.scenario_run import ActiveRun

T = TypeVar("T")

HOST: Final = "127.0.0.1"
_BACKLOG: Final = 512


class HttpThread:
    """Runs coroutines for blocking callers, and serves the proxies."""

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

    def open_proxies(self, active: ActiveRun, tools: Mapping[str, str], model: str, port: int = 0) -> str:
        """Start the proxies on a loopback port, 0 for any; return their address."""
        opened, url = _listen(port)
        self._client = open_client([*tools.values(), *([model] if model else [])])
        routes = [
            Route(f"{tool_proxy.PREFIX}/{{name}}{rest}", handle, methods=list(tool_proxy.METHODS))
            for handle in [tool_proxy.ToolProxy(tools, active, self._client).handle]
            for rest in ("", "/{rest:path}")
        ]
        if model:
            handle = llm_proxy.LlmProxy(model, active, self._client).handle
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
        """Stop the proxies and the thread; later requests are refused."""
        if self._server is not None and self._serving is not None:
            # No grace period: no agent waits for an answer any more, and a fault may sleep for minutes.
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
