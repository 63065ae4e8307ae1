"""Ports of loopback for servers that must be told theirs."""

from __future__ import annotations

import random
import socket

# Apart, because pyproject.toml forgives what a client of a broker forgets, and knows it by the port.
BROKERS = range(20_000, 32_000)
OTHERS = range(10_000, 20_000)


def free_ports(count: int, among: range = OTHERS) -> list[int]:
    """Return ports nobody listens on, from below the range that outgoing connections are given.

    A connection could otherwise be given that very port before the server listens, and a client that keeps knocking
    at a stopped server's port would be connected to itself.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.choice(among)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]
