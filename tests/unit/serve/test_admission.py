"""Limits on requests: how many at once, how large together; asked of the application itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import httpx
import pytest

from stream_guard.guard.gate import Gate, Ruling
from stream_guard.history.audit import verify
from stream_guard.history.chain import records
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import Action, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.serve.app import make_app
from stream_guard.serve.service import Service, UnjudgedAllows
from stream_guard.settings import ApiSettings, Settings
from stream_guard.testing import rule_spec

REGISTRY = build_registry()


class Limited:
    """The application with few places; its gate waits until it is let go."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.database = SqliteDatabase(folder / "history.db")
        rule = rule_spec(
            REGISTRY.kinds["no_call"], {"tool": "drop"}, rule_id="never", then=Action.BLOCK, on_error="closed"
        )
        self.service = Service(Gate(Policy(rules=(rule,), version="v"), self.database), ApiSettings(**limits))
        self.app = make_app(self.service, Assembly(Settings(), REGISTRY).make_decoder("native"))
        self.go = Flag()

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://localhost", timeout=30)

    def hold(self) -> None:
        """Keep the thread that judges busy until ``go`` is set."""
        self.service.run(self.go.wait, 30)

    def close(self) -> None:
        self.go.set()
        self.service.close()
        self.database.close()


def check(tool: str, number: int = 0) -> dict[str, Any]:
    return {"session_id": f"s{number}", "tool": tool, "call_id": f"c{number}", "args": {}}


def test_a_flood_is_refused_and_opens_nothing(tmp_path: Path) -> None:
    limited = Limited(tmp_path, max_in_flight=4, budget=20.0, on_error="open")

    async def flood() -> list[httpx.Response]:
        async with limited.client() as client:
            limited.hold()
            asked = [asyncio.ensure_future(client.post("/v1/check", json=check("drop", n))) for n in range(20)]
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            while len(done) < 16:
                done, _ = await asyncio.wait(asked, timeout=0.01)
            assert all(answer.result().status_code == 503 for answer in done)
            # Events and people have places of their own.
            limited.go.set()
            assert (await client.get("/v1/reviews")).status_code == 200
            return [await answer for answer in asked]

    answers = asyncio.run(flood())
    limited.close()
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [503] * 16
    assert {answer.json()["action"] for answer in answers if answer.status_code == 200} == {"block"}
    assert {answer.headers["retry-after"] for answer in answers if answer.status_code == 503} == {"1"}
    assert limited.service.refused == {"busy": 16}


def test_checks_that_wait_too_long_are_blocked_where_a_rule_stops_whatever_was_chosen(tmp_path: Path) -> None:
    limited = Limited(tmp_path, budget=0.05, on_error="open")

    async def ask() -> list[dict[str, Any]]:
        async with limited.client() as client:
            limited.hold()
            return [(await client.post("/v1/check", json=check(tool))).json() for tool in TOOLS]

    drop, disguised, look = asyncio.run(ask())
    limited.close()
    assert (disguised["action"], disguised["judged"]) == ("block", False)
    assert (drop["action"], drop["judged"], look["action"], look["judged"]) == ("block", False, "allow", False)
    assert limited.service.failures == {"closed": 2, "open": 1}


def test_what_was_allowed_without_being_judged_is_in_the_audit(tmp_path: Path) -> None:
    limited = Limited(tmp_path, budget=0.05, on_error="open")

    async def ask() -> None:
        async with limited.client() as client:
            limited.hold()
            for number in range(3):
                assert (await client.post("/v1/check", json=check("look", number))).json()["action"] == "allow"

    asyncio.run(ask())
    limited.go.set()
    limited.service.close()
    told = [(record["call_id"], record["action"], record["judged"]) for record in records(limited.database)]
    problems = verify(limited.database).problems
    limited.database.close()
    assert (told, problems) == ([("c0", "allow", False), ("c1", "allow", False), ("c2", "allow", False)], ())


def test_no_more_is_allowed_without_being_judged_than_the_audit_will_have(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "history.db")
    gate = Gate(Policy(rules=(), version="v"), database)
    allows, go = UnjudgedAllows(gate, most=2), Flag()
    attempt = ToolCall(session_id="s", tool="look", call_id="c")

    def busy() -> None:
        with database.transaction():
            go.wait(30)

    keeper = Thread(target=busy)
    keeper.start()
    answers = [allows.add(attempt, Ruling(action=Action.ALLOW)) for _ in range(3)]
    go.set()
    keeper.join()
    allows.close()
    written = len(list(records(database)))
    database.close()
    assert (answers, written) == ([True, True, False], 2)


def test_what_could_not_be_recorded_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = SqliteDatabase(tmp_path / "history.db")
    allows = UnjudgedAllows(Gate(Policy(rules=(), version="v"), database))
    database.close()
    allows.add(ToolCall(session_id="s", tool="look"), Ruling(action=Action.ALLOW))
    allows.close()
    assert "1 attempts that were allowed without being judged are not in the audit" in caplog.text


def test_bodies_count_together(tmp_path: Path) -> None:
    limited = Limited(tmp_path, max_in_flight_bytes=3000)

    async def ask() -> list[int]:
        async with limited.client() as client:
            first = asyncio.ensure_future(client.post("/v1/events", content=slowly(), headers=JSON))
            await started.wait()
            second = await client.post("/v1/events", content=b" " * 2000, headers=JSON)
            other_lane = await client.post("/v1/check", json=check("look"))
            release.set()
            return [(await first).status_code, second.status_code, other_lane.status_code]

    started, release = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"events": []' + b" " * 2000
        started.set()
        await release.wait()
        yield b"}"

    assert asyncio.run(ask()) == [200, 503, 200]
    limited.close()


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    limited = Limited(tmp_path, body_timeout=0.05)

    async def ask() -> httpx.Response:
        async def never() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        async with limited.client() as client:
            return await client.post("/v1/check", content=never(), headers=JSON)

    answer = asyncio.run(ask())
    limited.close()
    assert (answer.status_code, answer.headers["connection"]) == (408, "close")
    assert limited.service.refused == {"slow": 1}


TOOLS = ("drop", "dr\u043ep", "look")
JSON = {"content-type": "application/json"}
