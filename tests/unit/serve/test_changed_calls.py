"""Answers that a caller has to ask for: ``modify`` and ``defer``, over the API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from stream_guard.settings import ApiSettings
from tests.wires.gate import OpenedGate

BODY = {"session_id": "s1", "event_id": "e1", "tool": "refund", "args": {"amount": 250}}


class Api(OpenedGate):
    """The application as a program of one's own asks it."""

    def check(self, **more: Any) -> httpx.Response:
        """Ask about a call."""

        async def work() -> httpx.Response:
            transport = httpx.ASGITransport(self.app())
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.post("/v1/check", json={**BODY, **more})

        return asyncio.run(work())


def test_only_who_can_run_a_changed_call_is_given_one(tmp_path: Path) -> None:
    api = Api(tmp_path)
    changed, plain = api.check(may_modify=True).json(), api.check(event_id="e2").json()
    assert (changed["action"], changed["args"], changed["modified_by"]) == ("modify", {"amount": 100}, ["cap"])
    assert (plain["action"], "args" in plain) == ("block", False)
    assert "to pass: amount of at most 100" in plain["advice"]
    api.close()


@pytest.mark.parametrize("flag", ["may_modify", "may_defer"])
def test_a_flag_that_is_none_is_refused(tmp_path: Path, flag: str) -> None:
    api = Api(tmp_path)
    answer = api.check(**{flag: "yes"})
    assert (answer.status_code, flag in answer.json()["error"]) == (422, True)
    api.close()


def test_a_caller_that_can_wait_gets_the_judgement_when_it_asks_again(tmp_path: Path) -> None:
    api = Api(tmp_path, budget=0.01)
    with api.held():
        late = api.check(may_defer=True, tool="drop").json()
    api.service.settings = ApiSettings()
    judged = api.check(may_defer=True, tool="drop").json()
    assert (late["action"], late["judged"]) == ("defer", False)
    assert (judged["action"], judged["judged"]) == ("block", True)
    api.close()
