"""The page in a real browser: while 10,000 alerts come in within a minute, and over a session of 20,000 events.

What a person waits for is measured where they wait for it, in Chromium: from the press of a key or a button to the
next picture (Event Timing), and from a click to the page or the part that it opens. ``python -m tests.bench page``.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any, Final

import httpx
import msgspec

from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.demo.sessions import sample_events
from tests.bench.measure import processor_seconds
from tests.bench.waits import Waits, chromium_page
from tests.browser.devtools import CHROMIUM
from tests.http_end import HttpEnd
from tests.page.house import open_house
from tests.page.large_history import LISTS, fill, seconds

ALERTS: Final = 10_000
SECONDS: Final = 60.0
EVENTS: Final = 20_000
BATCHES: Final = 240  # requests that bring the alerts
BEFORE: Final = 100  # alerts that are there before them
FLOOD: Final = """
rules:
  - {id: no-wipe, kind: no_call, params: {tool: wipe}, severity: critical, reason: Nothing is wiped.}
"""
SECRET: Final = "whsec_" + "A" * 43 + "="  # of the receiver in this process


class Served:
    """A server with the page, and what an agent sends to it."""

    def __init__(self, url: str, folder: Path, pid: int) -> None:
        self.url = url
        self.pid = pid
        self.folder = folder
        self.client = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def send(self, events: Sequence[dict[str, Any]]) -> None:
        """Send events; every one must be accepted."""
        answer = self.client.post("/v1/events", json={"events": list(events)}).raise_for_status().json()
        assert answer["accepted"] == len(events), answer

    def count(self, table: str) -> int:
        """Return how many rows a table of the history has."""
        with sqlite3.connect(self.folder / "history.db") as database:
            [(found,)] = database.execute(f"SELECT count(*) FROM {table}")
        database.close()
        return int(found)

    def outbox(self) -> dict[str, int]:
        """Return how many alerts wait in the outbox, by state."""
        opened = AlertOutbox(self.folder / "outbox.db", shared=True)
        try:
            return opened.depths("pager")
        finally:
            opened.close()


@contextmanager
def served(folder: Path, policy: str, end: HttpEnd | None = None, window: float = SECONDS) -> Iterator[Served]:
    """Start ``serve`` with a policy; alerts go to a receiver too where there is one, summed up in windows."""
    (folder / "policy.yaml").write_text(policy)
    command = [sys.executable, "-m", "stream_guard.cli", "serve", "--policy", str(folder / "policy.yaml")]
    command += ["--port", "0", "--history", str(folder / "history.db")]
    names = {"STREAM_GUARD_DELIVERY__OUTBOX": str(folder / "outbox.db")}
    if end is not None:
        route = {"to": f"webhook:{end.url}", "secret": SECRET, "flood_window": window}
        names["STREAM_GUARD_DELIVERY__ROUTES"] = msgspec.json.encode({"pager": route}).decode()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **names})
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + process.stderr.read()
        server = Served(found.group(0), folder, process.pid)
        with server.client:
            yield server
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def flood_events(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return attempts that each break a rule, in sessions of ten."""
    return [
        {
            "kind": "tool_call",
            "session_id": f"flood-{number // 10}",
            "event_id": f"f{number}",
            "call_id": f"f{number}",
            "agent": f"agent-{number % 7}",
            "tool": "wipe",
            "time": 1_800_000_000.0 + number / 100,
            "args": {"path": f"/srv/{number}", "force": True},
        }
        for number in range(first, first + count)
    ]


def long_session(count: int = EVENTS, name: str = "long") -> list[dict[str, Any]]:
    """Return one session of many events: conversations of the refund agent, one after the other."""
    made: list[dict[str, Any]] = []
    began = 1_800_000_000.0
    for number, event in enumerate(sample_events(count // 10)):
        if event["kind"] != "session_end":
            made.append(event | {"session_id": name, "event_id": f"e{number}", "time": began + len(made)})
        if len(made) == count:
            break
    return made


def demo_policy() -> str:
    """Return the policy of the sample sessions: eleven rules, most of which remember something."""
    return (files("stream_guard.demo") / "policy.yaml").read_text()


def measure(folder: Path, alerts: int = ALERTS, within: float = SECONDS, events: int = EVENTS) -> dict[str, Any]:
    """Return what people wait for, and what became of the alerts."""
    if CHROMIUM is None:
        return {"missing": "no Chromium is installed (Debian: apt-get install chromium)"}
    for name in ("flood", "session", "lists"):
        (folder / name).mkdir()
    return {
        "flood": flood(folder / "flood", alerts, within),
        "session": long_one(folder / "session", events),
        "lists": lists(folder / "lists"),
    }


def flood(folder: Path, alerts: int, within: float) -> dict[str, Any]:
    """Use the page while alerts come in, and count them afterwards: in the history, at the receiver, in the outbox."""
    with HttpEnd() as end, served(folder, FLOOD, end, within) as server, chromium_page() as page:
        server.send(flood_events(BEFORE, alerts))
        _calm(page, server.url, 1)  # the first visit fills the caches of everybody
        calm = _calm(page, server.url, 3)
        waits = Waits(page, server.url)
        sender = Thread(target=_send_flood, args=(server, alerts, within))
        began, worked = time.monotonic(), processor_seconds(server.pid)
        sender.start()
        while sender.is_alive():
            _look_around(waits)
        took, worked, told_flood = time.monotonic() - began, processor_seconds(server.pid) - worked, waits.summary()
        told = _settled(server)
        sent = [request.json["data"] for request in end.requests]
        summaries = [alert for alert in sent if alert["kind"] == "stream_guard_summary"]
        return {
            "calm": calm,
            **told_flood,
            "seconds": round(took, 1),
            "server_processor_seconds": round(worked, 1),
            "live_messages": waits.frames,
            "in_history": server.count("sg_alerts") - BEFORE,
            "on_the_page": _counted(page, server.url, alerts + BEFORE) - BEFORE,
            "sent": len(sent) - len(summaries) - BEFORE,
            "summaries": [alert["suppressed"] for alert in summaries],
            "outbox": told,
        }


def _send_flood(server: Served, alerts: int, within: float) -> None:
    began = time.monotonic()
    for number in range(BATCHES):
        first, last = alerts * number // BATCHES, alerts * (number + 1) // BATCHES
        server.send(flood_events(last - first, first))
        time.sleep(max(0.0, began + within * (number + 1) / BATCHES - time.monotonic()))


def _calm(page: Any, url: str, rounds: int) -> dict[str, Any]:
    """Return what somebody waits for while nothing comes in."""
    waits = Waits(page, url)
    for _ in range(rounds):
        waits.open("alerts", "/")
        page.wait_for_selector("#live.on")
        _look_around(waits)
    return waits.summary()


def _look_around(waits: Waits) -> None:
    """Do once what a person on call does: keys, a filter, an alert, its session, the other lists, and back."""
    waits.page.mouse.move(5, 5)  # a list under the pointer would stand still
    waits.press("t", "t", "?", "Escape", "/", "Escape")
    waits.page.wait_for_timeout(1500)
    waits.press("j", "j", "k")
    waits.open("alert", link="#alerts .open")
    waits.open("its session", link="main .button")
    waits.press("j", "n")
    for path in ("/sessions", "/incidents", "/rules", "/activity", "/?severity=critical&rule=no-wipe", "/"):
        waits.open(path.partition("?")[0].strip("/") or "alerts", path)
    waits.page.wait_for_selector("#live.on")


def _settled(server: Served) -> dict[str, int]:
    """Wait until every alert was sent or summed up, and return how many are left in the outbox."""
    deadline = time.monotonic() + 180
    told = server.outbox()
    while time.monotonic() < deadline:
        told = server.outbox()
        if not any(told.values()):
            break
        time.sleep(0.5)
    return told


def _counted(page: Any, url: str, wanted: int) -> int:
    """Return the number that the page shows; it counts anew every few seconds."""
    deadline, found = time.monotonic() + 15, -1
    while found != wanted and time.monotonic() < deadline:
        page.goto(f"{url}/")
        found = int(page.inner_text(".tile-critical strong").replace(",", ""))
        page.wait_for_timeout(500)
    return found


def long_one(folder: Path, events: int) -> dict[str, Any]:
    """Open a long session, scroll through it, jump to a finding, and ask what rules remembered there."""
    with served(folder, demo_policy()) as server, chromium_page() as page:
        made = long_session(events)
        for begin in range(0, len(made), 200):
            server.send(made[begin : begin + 200])
        while server.count("sg_events") < len(made):
            time.sleep(0.2)
        waits = Waits(page, server.url)
        waits.open("its end", f"/sessions/long?at={events - 20}")
        waits.part("first look at states", _STATES)
        waits.part("next look at states", _STATES)
        waits.open("its beginning", "/sessions/long")
        while page.query_selector(".next[hx-get]"):
            waits.part("scroll to more", _SCROLL)
        waits.open("its beginning", "/sessions/long")
        waits.open("jump to a finding", link=".findings a")
        page.wait_for_selector(".step.here")
        waits.press("j", "j", "n", "N", "k", "t", "t", "?", "Escape")
        waits.open("jump on the strip", link=".strip")
        waits.open("sessions", "/sessions")
        return {**waits.summary(), "events": server.count("sg_events"), "findings": server.count("sg_alerts")}


def lists(folder: Path) -> dict[str, float]:
    """Return the processor seconds of the slowest lists of a million findings."""
    with open_house(folder) as house:
        house.database.read("SELECT 1")
        fill(folder)
        took = {path: seconds(house, path) for path in LISTS}
    return dict(sorted(took.items(), key=lambda one: -one[1])[:5])


# Until what was asked for is there; each returns the milliseconds that it took.
_STATES: Final = """async () => {
  const closed = [...document.querySelectorAll("details.states:not([open])")];
  const asked = closed.find((one) => one.textContent.includes("one moment"));
  if (!asked) return 0;
  const began = performance.now();
  asked.querySelector("summary").click();
  while (asked.textContent.includes("one moment")) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
_SCROLL: Final = """async () => {
  const had = document.querySelectorAll(".step").length;
  const began = performance.now();
  scrollTo(0, document.body.scrollHeight);
  while (document.querySelectorAll(".step").length === had) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
