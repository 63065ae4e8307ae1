"""Real servers on loopback for tests: an application in a thread, and the sample agent behind real proxies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from stream_guard_contract.document import AgentSection
from stream_guard_contract.driver import AgentDriver, AgentSetup
from stream_guard_contract.market_server import MarketServer


def listen() -> tuple[socket.socket, str]:
    opened = socket.create_server(("127.0.0.1", 0))
    return opened, f"http://127.0.0.1:{opened.getsockname()[1]}"


@contextmanager
def serving(app: ASGIApp, opened: socket.socket) -> Iterator[None]:
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, args=([opened],))
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


class Market:
    """The sample agent in one server, its tools and its model in another, and the proxies between them."""

    def __init__(self, driver: AgentDriver, world: MarketServer) -> None:
        self.driver = driver
        self.world = world

    @property
    def log(self) -> list[str]:
        """What the tools and the model were really asked."""
        return self.world.log


@contextmanager
def market(**agent: Any) -> Iterator[Market]:
    """Run the sample agent over HTTP; every call of a tool or of the model goes through the proxies."""
    world_socket, world_url = listen()
    agent_socket, agent_url = listen()
    world = MarketServer("", "")
    form = AgentSection.model_validate(
        {"endpoint": f"{agent_url}/ask", "reset_endpoint": "/reset", "timeout": 10_000, **agent}
    )
    tools = {name: f"{world_url}/tools/{name}" for name in ("market_data_api", "news_search")}
    setup = AgentSetup(agent=form, tools=tools, model=f"{world_url}/v1")
    with serving(world.app(), world_socket), AgentDriver(setup) as driver:
        server = MarketServer(f"{driver.url}/tools", f"{driver.url}/v1")
        with serving(server.app(), agent_socket):
            yield Market(driver, world)


@contextmanager
def proxied(app: ASGIApp, tools: Mapping[str, str] | None = None, *, model: str = "") -> Iterator[AgentDriver]:
    """Run an application as tools and model, behind proxies; the agent is a function that says nothing."""
    opened, url = listen()
    form = AgentSection(endpoint="tests.contract_pack.servers:say_nothing", type="python")
    named = {name: f"{url}{path}" for name, path in (tools or {}).items()}
    with (
        serving(app, opened),
        AgentDriver(AgentSetup(agent=form, tools=named, model=f"{url}{model}" if model else "")) as driver,
    ):
        yield driver


def say_nothing(_prompt: str) -> str:
    return ""
