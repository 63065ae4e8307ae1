"""The gate over HTTP: how long a check takes for one client, and for many at once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from stream_guard.policy.convert import to_yaml
from stream_guard.registry import Registry
from tests.bench.guard import TOOLS, policy

CHECKS = 3_000
CLIENTS = (1, 16)


def measure(registry: Registry, folder: Path) -> dict[str, Any]:
    """Return milliseconds per check at the median and at the 99th percentile, as the client sees them."""
    rules = folder / "serve.yaml"
    rules.write_text(to_yaml(policy(registry)), encoding="utf-8")
    command = [sys.executable, "-m", "stream_guard.cli", "serve", "--policy", str(rules), "--port", "0"]
    command += ["--history", str(folder / "serve.db")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        if not line.startswith("listening at "):
            return {"missing": f"the server did not start: {line.strip()}"}
        url = line.removeprefix("listening at ").strip()
        return {f"{clients} clients": asyncio.run(_ask(url, clients)) for clients in CLIENTS}
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


async def _ask(url: str, clients: int) -> dict[str, float]:
    taken: list[float] = []

    async def work(client: int) -> None:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            for step in range(CHECKS // clients):
                body = {
                    "session_id": f"s{clients}-{client}",
                    "event_id": f"e{step}",
                    "agent": "agent",
                    "run_id": "r",
                    "time": 1_767_600_000.0 + step,
                    "tool": TOOLS[step % len(TOOLS)],
                    "args": {"amount": step, "to": "someone@example.com"},
                }
                began = time.perf_counter()
                (await http.post(f"{url}/v1/check", json=body)).raise_for_status()
                taken.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(work(client) for client in range(clients)))
    elapsed = time.perf_counter() - began
    ordered = sorted(taken)
    return {
        "p50_ms": ordered[len(ordered) // 2] * 1e3,
        "p99_ms": ordered[len(ordered) * 99 // 100] * 1e3,
        "checks_per_second": len(ordered) / elapsed,
    }
