"""A headless browser over a pair of pipes: what a page shows, what it logs, and what it asks the network for."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """Speaks the DevTools protocol through file descriptors: no port, no driver, no further package."""

    def __init__(self, writer: int, reader: int) -> None:
        self._writer, self._reader = writer, reader
        self._buffer = b""
        self._number = 0
        self.heard: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = ""
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; what the browser says meanwhile is kept in ``heard``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if getattr(self, "_session", ""):
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.heard.append(answer)

    def open(self, page: Path) -> None:
        """Load a page and wait until it says that it is loaded."""
        self.open_url(page.as_uri())

    def open_url(self, address: str) -> None:
        """Load what is at an address and wait until it says that it is loaded."""
        self.heard.clear()
        self.call("Page.navigate", url=address)
        while not any(one.get("method") == "Page.loadEventFired" for one in self.heard):
            self.heard.append(self._next())

    def evaluate(self, expression: str) -> Any:
        """Return what an expression is in the page; what it promises, when that is there."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return told["result"].get("value")

    def complaints(self) -> list[str]:
        """Return everything that was logged or thrown since the page was opened."""
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(one) for one in self.heard if one.get("method") in names]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the page was opened, its own first; not what is inside it."""
        sent = [one for one in self.heard if one.get("method") == "Network.requestWillBeSent"]
        addresses = [one["params"]["request"]["url"] for one in sent]
        return [address for address in addresses if not address.startswith("data:")]

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser has been silent for a minute"
            read = os.read(self._reader, 1 << 16)
            assert read, "the browser is gone"
            self._buffer += read
        first, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it with everything it started."""
    assert CHROMIUM is not None
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The protocol's pipes are file descriptors 3 and 4, by convention of the browser; ours may have any number.
        wiring = (
            "import fcntl, os, sys; ours = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]; "
            "os.dup2(ours[0], 3); os.dup2(ours[1], 4); os.execv(sys.argv[3], sys.argv[3:])"
        )
        arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ]
        process = subprocess.Popen(
            [sys.executable, "-c", wiring, str(to_browser[0]), str(from_browser[1]), CHROMIUM, *arguments],
            pass_fds=(to_browser[0], from_browser[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            yield Browser(to_browser[1], from_browser[0])
        finally:
            os.close(to_browser[1])  # a browser whose pipe is closed ends itself and its children
            os.close(from_browser[0])
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
