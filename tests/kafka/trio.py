"""Three brokers that keep copies of each other's records, each with a listener that a proxy can cut off."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from kafka import KafkaAdminClient

from tests.kafka.broker import Broker
from tests.kafka.configuration import CONTROLLER, HOST, PROXIED, Seat, free_ports

NODES = (1, 2, 3)


class Trio:
    """A cluster of three brokers: three copies of each topic, of which two must be in sync."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        listeners = ("PLAINTEXT", PROXIED, CONTROLLER)
        ports = free_ports((len(listeners) + 1) * len(NODES))
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
        self.proxy = Proxy({fronts[node]: taken[node][PROXIED] for node in NODES})

    def __enter__(self) -> Self:
        for broker in self.brokers.values():
            broker.format()
        self.start(NODES)
        self.proxy.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.proxy.stop()
        for broker in self.brokers.values():
            broker.kill()
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
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            [described] = admin.describe_topics([topic])
        finally:
            admin.close()
        found: dict[str, Any] = next(one for one in described["partitions"] if one["partition_index"] == partition)
        return found

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the broker that leads a partition, and return its node."""
        node = self.leader(topic, partition)
        self.brokers[node].kill()
        return node


class Proxy:
    """Passes connections on to brokers, until it is cut: then open ones end, and new ones are not accepted."""

    def __init__(self, targets: dict[int, int]) -> None:
        self.address = ",".join(f"{HOST}:{port}" for port in targets)
        self._targets = targets
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()

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

    def cut(self) -> None:
        """End all connections and accept no more."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def restore(self) -> None:
        """Accept connections again."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    async def _listen(self) -> None:
        for front, target in self._targets.items():

            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int = target) -> None:
                await self._pass_on(reader, writer, target)

            self._servers.append(await asyncio.start_server(accept, HOST, front))

    async def _cut(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0.1)  # the tasks of the connections end

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(HOST, target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, to_broker}
        try:
            await asyncio.gather(_copy(reader, to_broker), _copy(from_broker, writer))
        finally:
            self._open -= {writer, to_broker}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
