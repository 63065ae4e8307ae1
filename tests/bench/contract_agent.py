"""The agent that both engines drive: one call of a model for each prompt, in process or over HTTP.

It runs in two environments, with and without stream_guard, so it needs nothing but Python; the server needs Starlette
and is only started here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

try:
    from stream_guard_contract import model
except ImportError:  # the other engine's environment: nothing to wrap for

    def model(function: Any) -> Any:  # type: ignore[misc]  # a stand-in that takes anything
        return function


TEXT = "According to the exchange feed, ACME stands at $123.45 today, a little over where it stood a week ago."


@model
def think(_messages: list[dict[str, str]]) -> str:
    """Answer as a model that is a function."""
    return TEXT


def answer(prompt: str) -> str:
    """Answer a prompt in this process."""
    return str(think([{"role": "user", "content": prompt}]))


def reset() -> None:
    """Forget everything, which is nothing."""


def ask_over_http(model_url: str, prompt: str) -> str:
    """Answer a prompt with a model that is reached over HTTP."""
    body = json.dumps({"messages": [{"role": "user", "content": prompt}]}).encode()
    request = Request(f"{model_url}/chat/completions", body, {"content-type": "application/json"})
    with urlopen(request, timeout=30) as reply:
        return str(json.loads(reply.read())["choices"][0]["message"]["content"])


def serve(port: int, model_url: str, ready: Callable[[], None]) -> None:
    """Serve the agent, its reset and a model."""
    import socket

    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request as Incoming
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def ask(request: Incoming) -> Response:
        prompt = str((await request.json())["input"])
        return JSONResponse({"output": await run_in_threadpool(ask_over_http, model_url, prompt)})

    async def forget(_request: Incoming) -> Response:
        return Response(status_code=204)

    async def complete(_request: Incoming) -> Response:
        message = {"role": "assistant", "content": TEXT}
        return JSONResponse({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    routes = [
        Route("/ask", ask, methods=["POST"]),
        Route("/reset", forget, methods=["POST"]),
        Route("/v1/chat/completions", complete, methods=["POST"]),
    ]
    opened = socket.create_server(("127.0.0.1", port))
    ready()
    config = uvicorn.Config(Starlette(routes=routes), log_config=None, access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[opened])


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], lambda: print("ready", flush=True))
