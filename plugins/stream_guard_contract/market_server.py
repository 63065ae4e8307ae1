"""The sample agent over HTTP: ``python -m stream_guard_contract.market_server`` serves agent, tools and model.

The agent calls its tools at ``TOOLS_BASE_URL`` and its model at ``OPENAI_BASE_URL``, by default on this server.
``/log`` lists the calls that reached the tools and the model, without those that a proxy answered itself.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request as Outgoing
from urllib.request import urlopen

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from stream_guard_contract.completions import Completion, write_completion, write_stream
from stream_guard_contract.market import MarketAgent, Messages, look_up_price, script, search_news

PATIENCE: Final = 2.0  # seconds the agent waits for a tool or the model
_TOOLS: Final[Mapping[str, tuple[Callable[..., Any], str]]] = {
    "market_data_api": (look_up_price, "ticker"),
    "news_search": (search_news, "query"),
}


class MarketServer:
    """Agent, tools and model as routes of one application."""

    def __init__(self, tools_url: str, model_url: str) -> None:
        self.log: list[str] = []
        self._agent = MarketAgent(
            partial(ask_model, model_url), {name: partial(call_tool, f"{tools_url}/{name}") for name in _TOOLS}
        )

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/ask", self.ask, methods=["POST"]),
                Route("/reset", self.reset, methods=["POST"]),
                Route("/tools/{name}", self.tool),
                Route("/v1/chat/completions", self.complete, methods=["POST"]),
                Route("/log", self.show_log),
            ]
        )

    async def ask(self, request: Request) -> Response:
        """Let the agent answer, in a thread because it blocks."""
        asked = await request.json()
        answer = await run_in_threadpool(self._agent.answer, str(asked["input"]))
        return JSONResponse({"output": answer})

    async def reset(self, _request: Request) -> Response:
        """Reset the agent."""
        self._agent.reset()
        return Response(status_code=204)

    async def tool(self, request: Request) -> Response:
        """Answer as a tool."""
        name = request.path_params["name"]
        self.log.append(f"{name}?{request.url.query}")
        function, argument = _TOOLS[name]
        try:
            return JSONResponse(function(request.query_params.get(argument, "")))
        except KeyError:
            return JSONResponse({"error": "not traded"}, 404)

    async def complete(self, request: Request) -> Response:
        """Answer as the model, whole or streamed."""
        asked = await request.json()
        self.log.append("model")
        completion = Completion(text=script(asked["messages"]), finish="stop", model="script", id="chatcmpl-script")
        if asked.get("stream"):
            return StreamingResponse(iter(list(write_stream(completion))), media_type="text/event-stream")
        return Response(write_completion(completion), media_type="application/json")

    async def show_log(self, _request: Request) -> Response:
        """List the calls of the tools and the model so far."""
        return PlainTextResponse("".join(f"{line}\n" for line in self.log))


def call_tool(url: str, **args: str) -> Any:
    """Return a tool's answer, parsed; OSError or ValueError when it fails."""
    query = "&".join(f"{name}={quote(value)}" for name, value in args.items())
    return _fetch(f"{url}?{query}")


def ask_model(url: str, messages: Messages) -> str:
    """Return the model's text; empty where the model fails or its answer cannot be read."""
    body = json.dumps({"model": "script", "messages": messages}).encode()
    request = Outgoing(f"{url}/chat/completions", body, {"content-type": "application/json"})  # noqa: S310  # as below
    try:
        text = _fetch(request)["choices"][0]["message"]["content"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return str(text)


def _fetch(request: str | Outgoing) -> Any:
    try:
        with urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310  # an address from the environment
            return json.loads(answer.read())
    except HTTPError as error:
        error.close()  # it holds the connection
        raise


def serve(port: int = 0, *, tools_url: str = "", model_url: str = "", ready: Callable[[str], None] = print) -> None:
    """Listen on loopback until interrupted; ``ready`` is called with the address."""
    opened = socket.create_server(("127.0.0.1", port))
    url = f"http://127.0.0.1:{opened.getsockname()[1]}"
    server = MarketServer(tools_url or f"{url}/tools", model_url or f"{url}/v1")
    config = uvicorn.Config(server.app(), log_config=None, access_log=False, lifespan="off")
    ready(url)
    uvicorn.Server(config).run(sockets=[opened])


def main() -> None:
    """Serve on the port of the command line."""
    parser = argparse.ArgumentParser(description="The sample agent of contracts, over HTTP.")
    parser.add_argument("--port", type=int, default=8000)
    serve(
        parser.parse_args().port,
        tools_url=os.environ.get("TOOLS_BASE_URL", ""),
        model_url=os.environ.get("OPENAI_BASE_URL", ""),
        ready=lambda url: print(f"the sample agent listens on {url}/ask", flush=True),  # noqa: T201  # a command of its own
    )


if __name__ == "__main__":
    main()
