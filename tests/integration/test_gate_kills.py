"""A gate that is killed forgets nothing that rules which stop count: nobody passes a limit by crashing it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from tests import plain_http
from tests.integration.test_serve import Running, serving

MOST, CLIENTS = 12, 4
LIMITS = {"send": 3, "pay": 3, "fetch": 2}
POLICY = f"""
rules:
  - {{id: mails, kind: max_calls, params: {{tool: send, n: {LIMITS["send"]}}}, then: block}}
  - {{id: by-agent, kind: max_calls, params: {{tool: pay, n: {LIMITS["pay"]}}}, key: [agent], then: block}}
  - {{id: failing, kind: max_failed_calls, params: {{tool: fetch, n: {LIMITS["fetch"]}}}, then: block}}
  - {{id: many, kind: max_calls, params: {{tool: look, n: {MOST}}}, then: block}}
"""


@contextmanager
def gate(folder: Path) -> Iterator[Running]:
    with serving(folder, "--checkpoint", str(folder / "state.db"), policy=POLICY) as server:
        yield server


def ask(server: Running, number: str, tool: str, session: str) -> str:
    body = {"session_id": session, "event_id": f"e{number}", "call_id": f"c{number}", "tool": tool, "agent": "bot"}
    action: str = server.post("/v1/check", body).json()["action"]
    return action


def tell_failure(server: Running, number: str, session: str) -> None:
    event = {"kind": "tool_result", "session_id": session, "call_id": f"c{number}", "status": "error"}
    assert server.post("/v1/events", {"events": [event]}).status_code == 200


def test_after_a_kill_no_more_is_allowed_than_before(tmp_path: Path) -> None:
    """Limits of a session, of a key across sessions, and by what events told."""
    answers: dict[str, list[str]] = {"send": [], "pay": [], "fetch": []}
    for _ in range(2):
        with gate(tmp_path) as server:
            for tool, given in answers.items():
                for _ in range(LIMITS[tool]):
                    number = len(given)
                    given.append(ask(server, f"{tool}-{number}", tool, f"s{number}" if tool == "pay" else "s"))
                    if tool == "fetch" and given[-1] == "allow":
                        tell_failure(server, f"{tool}-{number}", "s")
            server.kill()
    assert answers == {tool: ["allow"] * most + ["block"] * most for tool, most in LIMITS.items()}


class Asking:
    """Clients that ask until the gate has no more for them, over servers that are killed under them."""

    def __init__(self, sessions: list[str]) -> None:
        self.allowed: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()  # questions that were asked, and not answered
        self._sessions = sessions
        self._number = 0
        self._lock = threading.Lock()
        self._answered = threading.Semaphore(0)

    def run(self, server: Running, until: int) -> None:
        """Ask from many threads at once; kill the server when so many answers have come."""
        threads = [threading.Thread(target=self._work, args=(server.url, session)) for session in self._sessions]
        for thread in threads:
            thread.start()
        for _ in range(until):
            self._answered.acquire()
        server.kill()
        for thread in threads:
            thread.join()

    def _work(self, url: str, session: str) -> None:
        with plain_http.client(timeout=60) as http:
            while self._ask(http, url, session):
                pass

    def _ask(self, http: httpx.Client, url: str, session: str) -> bool:
        with self._lock:
            self._number += 1
            number = self._number
        body: dict[str, Any] = {"session_id": session, "event_id": f"e{number}", "tool": "look"}
        try:
            action = http.post(f"{url}/v1/check", json=body).json()["action"]
        except httpx.HTTPError:
            with self._lock:
                self.lost[session] += 1
            return False
        with self._lock:
            self.allowed[session] += action == "allow"
        self._answered.release()
        return True


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_kills_amid_questions_neither_pass_nor_use_up_a_limit(tmp_path: Path, seed: int) -> None:
    random, sessions = Random(seed), [f"s{number}" for number in range(CLIENTS)]
    asking = Asking(sessions)
    for _ in range(2):
        with gate(tmp_path) as server:
            asking.run(server, random.randint(1, CLIENTS * MOST // 2))
    with gate(tmp_path) as server:
        for session in sessions:
            left = 0
            while ask(server, f"last-{left}", "look", session) == "allow":
                left += 1
            assert MOST - asking.lost[session] <= asking.allowed[session] + left <= MOST
