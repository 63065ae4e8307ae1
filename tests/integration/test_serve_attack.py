"""Sixty-four clients try to get a blocked call executed: in any order, at once, over kills and new policies."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import pytest

from stream_guard.history import audit
from stream_guard.history.database import open_database
from stream_guard.serve.tokens import TokenEntry, make_token, write_tokens
from tests import plain_http
from tests.integration.test_serve import serving

RULES: Final = """
rules:
  - {id: never, kind: no_call, params: {tool: drop}, then: block}
  - {id: ask, kind: no_call, params: {tool: pay}, then: pause}
  - {id: end, kind: no_call, params: {tool: leak}, then: terminate_session}
"""
STRICTER: Final = f"{RULES}  - {{id: no-pay, kind: no_call, params: {{tool: pay}}, then: block}}\n"
CLIENTS, STEPS, SESSIONS = 64, 4, 12
WAYS: Final = ("check", "check", "check", "approve", "approve", "approve as the agent", "result", "turn", "end")


@dataclass(frozen=True)
class Answered:
    """One check and its answer, with the times between which it was given."""

    session: str
    tool: str
    amount: int
    ids: tuple[str, str]
    action: str
    began: float
    ended: float


@dataclass
class Attack:
    """What the clients of one test did, over all servers."""

    tokens: dict[str, str]
    url: str = ""
    answers: list[Answered] = field(default_factory=list)
    waiting: list[tuple[str, str, int]] = field(default_factory=list)  # reviews: id, session, amount
    approved: list[tuple[str, int, float]] = field(default_factory=list)  # session, amount, when it was sent
    refused_to_agents: Counter[int] = field(default_factory=Counter)

    async def run(self, random: Random) -> None:
        """Let all clients work at the same time."""
        await asyncio.gather(*(self._connect(Random(random.random())) for _ in range(CLIENTS)))

    async def _connect(self, random: Random) -> None:
        # Each with connections of its own: in a shared pool every request looks at those of all the others.
        async with plain_http.async_client(timeout=60) as http:
            await self._work(http, random)

    async def _work(self, http: httpx.AsyncClient, random: Random) -> None:
        for _ in range(STEPS):
            session, amount = f"s{random.randrange(SESSIONS)}", random.choice((1, 2))
            call, event = random.choice(("", "c1", "c2")), random.choice(("", "", "e1", "e2"))
            way = random.choice(WAYS)
            if way == "check":
                tool = random.choice(
                    ("drop", "pay", "pay", "pay", "look", *(["leak"] if random.random() < 0.1 else []))
                )
                await self._check(http, session, tool, amount, (call, event))
            elif way.startswith("approve"):
                await self._approve(http, "bot" if "agent" in way else random.choice(("ada", "bob")), random)
            else:
                await self._post(http, "bot", "/v1/events", {"events": [_event(way, session, call or "c1", amount)]})

    async def _check(self, http: httpx.AsyncClient, session: str, tool: str, amount: int, ids: tuple[str, str]) -> None:
        body = {"session_id": session, "tool": tool, "args": {"amount": amount}, "call_id": ids[0], "event_id": ids[1]}
        began = time.monotonic()
        response = await self._post(http, "bot", "/v1/check", body)
        said = response.json()
        action = said["action"] if response.status_code == 200 else "refused"
        self.answers.append(Answered(session, tool, amount, ids, action, began, time.monotonic()))
        if action == "pause":
            self.waiting.append((said["review"]["id"], session, amount))

    async def _approve(self, http: httpx.AsyncClient, who: str, random: Random) -> None:
        if not self.waiting:
            return
        review, session, amount = random.choice(self.waiting)
        sent = time.monotonic()
        response = await self._post(http, who, f"/v1/reviews/{review}/approve", {})
        if who == "bot":
            self.refused_to_agents[response.status_code] += 1
        elif response.status_code == 200:
            self.approved.append((session, amount, sent))

    async def _post(self, http: httpx.AsyncClient, who: str, path: str, body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        return await http.post(f"{self.url}{path}", json=body, headers=headers)


def _event(way: str, session: str, call: str, amount: int) -> dict[str, Any]:
    if way == "result":
        return {"kind": "tool_result", "session_id": session, "call_id": call, "status": "ok"}
    if way == "end":
        return {"kind": "session_end", "session_id": session}
    block = {"type": "tool_use", "id": call, "name": "pay", "input": {"amount": amount}}
    return {"kind": "turn", "session_id": session, "response": {"content": [block]}}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_no_client_gets_a_blocked_call_executed(tmp_path: Path, seed: int) -> None:
    attack, random = Attack(_tokens(tmp_path)), Random(seed)
    options = ("--checkpoint", str(tmp_path / "state.db"))
    variables = {"STREAM_GUARD_API__TOKENS_FILE": str(tmp_path / "tokens"), "STREAM_GUARD_API__ON_ERROR": "open"}
    stricter: list[int] = []  # which of the answers were given under the stricter policy
    for policy, killed in ((RULES, True), (STRICTER, True), (RULES, False)):
        with serving(tmp_path, *options, policy=policy, **variables) as server:
            attack.url = server.url
            before = len(attack.answers)
            asyncio.run(attack.run(random))
            if killed:
                server.kill()
        stricter += range(before, len(attack.answers)) if policy is STRICTER else ()
    actions = Counter((answer.tool, answer.action) for answer in attack.answers)
    assert actions["drop", "block"] > 20
    assert actions["pay", "pause"] > 20
    assert actions["look", "allow"] > 5
    assert actions["pay", "allow"] > 2
    assert actions["drop", "allow"] == 0
    _hold(attack, stricter)
    database = open_database(str(tmp_path / "history.db"))
    assert audit.verify(database).problems == ()
    database.close()


def _hold(attack: Attack, stricter: list[int]) -> None:
    """Hold the answers to what people said, and to the ends of sessions."""
    paid = [answer for answer in attack.answers if (answer.tool, answer.action) == ("pay", "allow")]
    assert not [at for at in stricter if attack.answers[at] in paid]
    given = Counter((session, amount) for session, amount, _ in attack.approved)
    # Asked again under the same ids, an attempt has the same answer; without ids every attempt is another.
    named = {(one.session, one.amount, one.ids) for one in paid if one.ids != ("", "")}
    used = Counter(one[:2] for one in named) + Counter((one.session, one.amount) for one in paid if one.ids == ("", ""))
    assert {key: number for key, number in used.items() if number > given[key]} == {}
    for one in paid:
        assert any(key[:2] == (one.session, one.amount) and key[2] < one.ended for key in attack.approved), one
    ends = {
        one.session: one.ended for one in attack.answers if one.action == "terminate_session" and one.tool == "leak"
    }
    after = [one for one in attack.answers if one.began > ends.get(one.session, float("inf"))]
    assert {one.action for one in after} <= {"terminate_session"}
    assert set(attack.refused_to_agents) <= {403}


def _tokens(folder: Path) -> dict[str, str]:
    made = {name: make_token() for name in ("bot", "ada", "bob")}
    roles = {"bot": "agent", "ada": "reviewer", "bob": "reviewer"}
    entries = [TokenEntry(name=name, role=roles[name], sha256=digest) for name, (_, digest) in made.items()]  # type: ignore[arg-type]  # the words above
    write_tokens(folder / "tokens", entries)
    return {name: token for name, (token, _) in made.items()}
