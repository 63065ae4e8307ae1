"""Three brokers that keep copies of each other's records, each with a listener that a proxy can cut off."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from kafka import KafkaAdminClient

from tests.kafka.broker import PATIENCE, Broker
from tests.kafka.configuration import CONTROLLER, HOST, PROXIED, Seat
from tests.ports import BROKERS, free_ports

NODES = (1, 2, 3)
TO_BROKER, FROM_BROKER = "to broker", "from broker"


class Trio:
    """A cluster of three brokers: three copies of each topic, of which two must be in sync."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        listeners = ("PLAINTEXT", PROXIED, CONTROLLER)
        ports = free_ports((len(listeners) + 1) * len(NODES), BROKERS)
        taken = {node: dict(zip(listeners, ports[at :: len(NODES)], strict=False)) for at, node in enumerate(NODES)}
        controllers = {node: taken[node][CONTROLLER] for node in NODES}
        fronts = dict(zip(NODES, ports[-len(NODES) :], strict=True))
        self.brokers = {
            node: Broker(
                folder / f"broker-{node}",
                ports=taken[node],
                seat=Seat(node, controllers, {PROXIED: fronts[node]}),
            )
            for node in NODES
        }
        self.proxy = Proxy({node: Way(fronts[node], taken[node][PROXIED]) for node in NODES})

    def __enter__(self) -> Self:
        for broker in self.brokers.values():
            broker.format()
        self.start(NODES)
        self.proxy.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.proxy.stop()
        for broker in self.brokers.values():
            broker.remove()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, nodes: Iterable[int]) -> None:
        """Start brokers side by side, and wait until they answer."""
        listed = [self.brokers[node] for node in nodes]
        for broker in listed:
            broker.launch()
        for broker in listed:
            broker.wait()

    @property
    def address(self) -> str:
        """The bootstrap servers."""
        return ",".join(broker.address() for broker in self.brokers.values())

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition."""
        return int(self._describe(topic, partition)["leader_id"])

    def copies(self, topic: str) -> int:
        """How many copies a topic has."""
        return len(self._describe(topic, 0)["replica_nodes"])

    def _describe(self, topic: str, partition: int) -> dict[str, Any]:
        """Describe a partition, when somebody has made its topic and the broker that is asked has heard of it."""
        admin, end = KafkaAdminClient(bootstrap_servers=self.address), time.monotonic() + PATIENCE
        try:
            while True:
                [described] = admin.describe_topics([topic])
                for one in described["partitions"]:
                    if one["partition_index"] == partition:
                        return dict(one)
                assert time.monotonic() < end, f"nobody makes {topic}"
                time.sleep(0.3)
        finally:
            admin.close()

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the broker that leads a partition, and return its node."""
        node = self.leader(topic, partition)
        self.brokers[node].kill()
        return node


@dataclass
class Way:
    """The way between clients and one broker: where clients knock, where the broker listens, and what holds it up."""

    front: int
    target: int
    delay: float = 0.0  # seconds that each piece waits
    held: set[str] = field(default_factory=set)  # directions in which nothing passes: TO_BROKER, FROM_BROKER
    server: asyncio.Server | None = None
    open: set[asyncio.StreamWriter] = field(default_factory=set)


class Proxy:
    """Passes connections on to brokers; the way to each can be cut, held up in one direction, or made slow."""

    def __init__(self, ways: dict[int, Way]) -> None:
        self.address = ",".join(f"{HOST}:{way.front}" for way in ways.values())
        self._ways = ways
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._changed: asyncio.Event | None = None

    def start(self) -> None:
        """Listen in the place of the brokers."""
        self._thread.start()
        self.restore()

    def stop(self) -> None:
        """End all connections and the thread."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self, *nodes: int) -> None:
        """End all connections to these brokers, or to all, and accept no more."""
        self._call(self._cut(nodes or tuple(self._ways)))

    def hold(self, node: int, direction: str) -> None:
        """Let nothing pass in one direction, on connections that stay open."""
        self._call(self._set(self._ways[node], held={direction}))

    def slow(self, node: int, seconds: float) -> None:
        """Let each piece wait on its way to and from a broker."""
        self._call(self._set(self._ways[node], delay=seconds))

    def restore(self) -> None:
        """Let everything pass again; what was held arrives."""
        self._call(self._restore())

    def _call(self, action: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(action, self._loop).result()

    async def _set(self, way: Way, *, held: set[str] | None = None, delay: float = 0.0) -> None:
        way.held, way.delay = held or set(), delay
        if self._changed is not None:
            self._changed.set()
        self._changed = asyncio.Event()

    async def _restore(self) -> None:
        for way in self._ways.values():
            await self._set(way)
            if way.server is None:
                way.server = await asyncio.start_server(partial(self._pass_on, way), HOST, way.front)

    async def _cut(self, nodes: tuple[int, ...]) -> None:
        for way in map(self._ways.__getitem__, nodes):
            if way.server is not None:
                way.server.close()
                way.server = None
            await self._set(way)  # what waits goes on, and finds its connection ended
            for writer in list(way.open):
                writer.transport.abort()
        await asyncio.sleep(0.1)  # the tasks of the connections end

    async def _pass_on(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(HOST, way.target)
        except OSError:
            writer.transport.abort()
            return
        way.open |= {writer, to_broker}
        try:
            await asyncio.gather(
                self._copy(way, TO_BROKER, reader, to_broker), self._copy(way, FROM_BROKER, from_broker, writer)
            )
        finally:
            way.open -= {writer, to_broker}

    async def _copy(self, way: Way, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                while direction in way.held and self._changed is not None:
                    await self._changed.wait()
                if way.delay:
                    await asyncio.sleep(way.delay)
                writer.write(data)
                await writer.drain()
        writer.close()
