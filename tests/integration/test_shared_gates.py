"""Three gates on one real Postgres: any of them answers for any session, and kills of them lose no count."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from stream_guard.errors import StoreError
from stream_guard.guard.inline import Guard
from stream_guard.model import Action, ToolCall
from stream_guard.policy.spec import Policy
from stream_guard.storage.shared import SharedStore
from stream_guard.testing import rule_spec
from tests import plain_http
from tests.frameworks.world import KINDS
from tests.history.postgres import Server, find_programs, running
from tests.integration.test_serve import Running, serving
from tests.parts import import_part, require

GATES, MOST = 3, 10
POLICY = f"""
rules:
  - {{id: many, kind: max_calls, params: {{tool: look, n: {MOST}}}, then: block}}
  - {{id: by-agent, kind: max_calls, params: {{tool: pay, n: {MOST}}}, key: [agent], then: block}}
  - {{id: end, kind: no_call, params: {{tool: leak}}, then: terminate_session}}
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    import_part("psycopg")
    programs = find_programs()
    require(programs, "Postgres is not installed (Debian: apt-get install postgresql)")
    assert programs is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(programs, port) as server:
        yield server


class Gates:
    """Servers that are killed and started anew, and what their clients were answered."""

    def __init__(self, folder: Path, address: str, opened: ExitStack, random: Random) -> None:
        self._folder = folder
        self._address = address
        self._opened = opened
        self._random = random
        self._lock = threading.Lock()
        self._answered = threading.Semaphore(0)
        self._number = 0
        self.servers = [self._start() for _ in range(GATES)]
        self.allowed: Counter[str] = Counter()  # by what is limited: a session, or an agent
        self.asked: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()  # questions that were asked, and not answered
        self.ended: dict[str, float] = {}  # sessions, and when the answer came that they are
        self.late: list[str] = []  # sessions in which something was allowed that was asked after their end

    def _start(self) -> Running:
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        options = ("--checkpoint", self._address, "--history", self._address, "--no-page")
        return self._opened.enter_context(serving(folder, *options, policy=POLICY))

    def work(self, clients: int, checks: int, kills: int) -> None:
        """Let clients ask so many questions in all, and kill gates meanwhile."""
        steps = checks // clients
        seeds = [self._random.random() for _ in range(clients)]
        threads = [threading.Thread(target=self._ask_all, args=(Random(seed), steps)) for seed in seeds]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            for _ in range(steps * clients // (kills + 1)):
                self._answered.acquire()
            place = self._random.randrange(GATES)
            self.servers[place].kill()
            self.servers[place] = self._start()
        for thread in threads:
            thread.join()

    def _ask_all(self, random: Random, steps: int) -> None:
        with plain_http.client(timeout=60) as http:
            for _ in range(steps):
                session, agent = f"s{random.randrange(30)}", f"a{random.randrange(5)}"
                tool = random.choices(("look", "pay", "leak"), (60, 30, 1))[0]
                self._ask(http, random.choice(self.servers).url, session, agent, tool)

    def _ask(self, http: httpx.Client, url: str, session: str, agent: str, tool: str) -> None:
        counted = agent if tool == "pay" else session
        with self._lock:
            self._number += 1
            event_id = f"e{self._number}"
            self.asked[counted] += tool != "leak"
        began = time.monotonic()
        body: dict[str, Any] = {"session_id": session, "event_id": event_id, "tool": tool, "agent": agent}
        try:
            action = http.post(f"{url}/v1/check", json=body).json()["action"]
        except httpx.HTTPError:
            action = ""
        with self._lock:
            self.lost[counted] += not action
            self.allowed[counted] += action == "allow"
            if action == "terminate_session":
                self.ended.setdefault(session, time.monotonic())
            elif action == "allow" and self.ended.get(session, began) < began:
                self.late.append(session)
        self._answered.release()


@pytest.mark.parametrize(
    ("clients", "checks", "kills"), [(8, 200, 1), pytest.param(64, 100_000, 100, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(7200)
def test_three_gates_count_as_one_over_kills(
    tmp_path: Path, postgres: Server, clients: int, checks: int, kills: int
) -> None:
    with ExitStack() as opened:
        gates = Gates(tmp_path, postgres.address, opened, Random(7))
        gates.work(clients, checks, kills)
    for counted, allowed in gates.allowed.items():
        assert allowed <= MOST
        if counted not in gates.ended and counted[0] == "s":
            assert allowed >= min(MOST, gates.asked[counted]) - gates.lost[counted], counted
    assert gates.late == []
    assert sum(gates.allowed.values()) > MOST
    assert gates.ended


@pytest.fixture
def shared(postgres: Server) -> Iterator[list[Guard]]:
    """Return two guards on one database."""
    rules = (
        rule_spec(KINDS["max_calls"], {"tool": "*", "n": 3}, then=Action.BLOCK),
        rule_spec(KINDS["max_calls"], {"tool": "*", "n": 4}, rule_id="by-agent", key=["agent"], then=Action.BLOCK),
    )
    stores = [SharedStore(postgres.address) for _ in range(2)]
    yield [Guard(Policy(rules=rules, version="v1"), store=store, clock=store.time) for store in stores]
    for store in stores:
        store.close()


def call(number: int, session: str, agent: str) -> ToolCall:
    return ToolCall(session_id=session, event_id=f"e{number}", tool="t", call_id=f"c{number}", agent=agent)


def test_what_one_guard_allowed_the_other_counts(shared: list[Guard]) -> None:
    answers = [shared[number % 2].check(call(number, "by-session", f"a{number}")).action for number in range(5)]
    assert answers == [Action.ALLOW] * 3 + [Action.BLOCK] * 2
    answers = [shared[number % 2].check(call(number, f"x{number}", "one-agent")).action for number in range(6)]
    assert answers == [Action.ALLOW] * 4 + [Action.BLOCK] * 2


def test_a_question_asked_again_at_another_guard_is_one_attempt(shared: list[Guard]) -> None:
    same = call(1, "again", "again")
    assert [guard.check(same).action for guard in (*shared, *shared, *shared)] == [Action.ALLOW] * 6
    assert shared[0].check(call(2, "again", "again")).action is Action.ALLOW


def test_a_database_that_went_away_opens_nothing_and_is_used_again(postgres: Server, shared: list[Guard]) -> None:
    assert shared[0].check(call(1, "away", "away")).action is Action.ALLOW
    postgres.stop()
    try:
        with pytest.raises(StoreError, match="see that the server runs") as failure:
            shared[0].check(call(2, "away", "away"))
        assert "a-password" not in str(failure.value)
    finally:
        postgres.start()
    answers = [shared[number % 2].check(call(number, "away", "away")).action for number in range(3, 7)]
    assert answers == [Action.ALLOW] * 2 + [Action.BLOCK] * 2


def test_a_session_is_judged_by_one_at_a_time(postgres: Server) -> None:
    psycopg = import_part("psycopg")
    order: list[str] = []
    with ExitStack() as opened:
        first, second = (opened.enter_context(closing(SharedStore(postgres.address))) for _ in range(2))
        database = opened.enter_context(psycopg.connect(postgres.address, autocommit=True))

        def hold() -> None:
            waiting.start()
            while not database.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchall():
                pass
            first.put("row", b"of the first", None)
            order.append("first")

        def read() -> None:
            order.append(f"second, after what was {(second.get('row') or b'').decode()}")

        waiting = threading.Thread(target=second.together, args=(["row"], read))
        first.together(["row"], hold)
        waiting.join()
    assert order == ["first", "second, after what was of the first"]


def test_whoever_is_cut_off_while_it_judges_judges_anew(postgres: Server) -> None:
    psycopg = import_part("psycopg")
    seen: list[bytes | None] = []
    with ExitStack() as opened:
        store = opened.enter_context(closing(SharedStore(postgres.address)))
        database = opened.enter_context(psycopg.connect(postgres.address, autocommit=True))
        store.together(["cut"], lambda: store.put("cut", b"1", None))

        def work() -> None:
            seen.append(store.get("cut"))
            store.put("cut", b"2", None)
            if len(seen) == 1:
                cut = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                assert database.execute(cut).fetchall()
                while database.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'").fetchall():
                    pass

        store.together(["cut"], work)
        assert seen == [b"1", b"1"], "what the first try put was not written"
        assert store.together(["cut"], lambda: store.get("cut")) == b"2"
