"""The campaign: clients ask gates that are killed under them, and every answer is held against one gate's.

    python -m tests.gates --checks 100000 --clients 64 --kill-every 5

A client that gets no answer asks again, elsewhere, under the same ids, as honest clients do. In episodes the right
answers are known beforehand: who waits for a yes, who asks in the wrong order, who goes on after the end. Limits are
shared by all clients, so the order of their questions is nobody's; what is allowed under each of them must be what one
guard allows that is asked the same questions.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests.gates.fleet import Fleet
from tests.gates.wire import Connections, Unanswered

MOST, FAILS = 10, 2
POLICY: Final = f"""
rules:
  - {{id: by-session, kind: max_calls, params: {{tool: look, n: {MOST}}}, then: block}}
  - {{id: by-agent, kind: max_calls, params: {{tool: pay, n: {MOST}}}, key: [agent], then: block}}
  - {{id: failing, kind: max_failed_calls, params: {{tool: fetch, n: {FAILS}}}, then: block}}
  - {{id: confirm-first, kind: must_call_before, params: {{first: confirm, second: refund}}, then: block}}
  - {{id: ask, kind: no_call, params: {{tool: wire}}, then: pause}}
  - {{id: wired-first, kind: must_call_before, params: {{first: wire, second: settle}}, then: block}}
  - {{id: end, kind: no_call, params: {{tool: leak}}, then: terminate_session}}
"""
_FREEZES: Final = 0.25  # of the disturbances of a long run
_ASK_ELSEWHERE: Final = 5.0  # seconds without an answer
_PATIENCE: Final = 120.0  # seconds after which a question that nobody answers was refused for good


class Question(NamedTuple):
    """What is asked about a limit that all clients share."""

    session: str
    agent: str
    tool: str

    @property
    def limit(self) -> str:
        """What the limit counts by."""
        return self.agent if self.tool == "pay" else self.session


class Tally:
    """What was asked and answered."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.allowed: Counter[str] = Counter()
        self.wrong: list[str] = []  # answers of episodes that are not the right ones
        self.answers = 0
        self.repeated = 0  # questions that were asked again because no answer came
        self.seconds: list[float] = []  # that an answer took which came at once
        self.episodes: Counter[str] = Counter()
        self.turns = count()  # of the episodes: one sort comes after the other, whoever is quicker
        self._news = asyncio.Event()

    def count_answer(self) -> None:
        """Take note of one more answer."""
        self.answers += 1
        self._news.set()

    async def reach(self, answers: int) -> None:
        """Wait for so many answers."""
        while self.answers < answers:
            self._news.clear()
            await self._news.wait()


class Client:
    """One of many who ask."""

    def __init__(self, number: int, fleet: Fleet, tally: Tally, random: Random, http: Connections) -> None:
        self._number = number
        self._fleet = fleet
        self._tally = tally
        self._random = random
        self._http = http
        self._asked = 0

    async def ask(self, session: str, tool: str, agent: str = "bot", event: str = "") -> dict[str, Any]:
        """Ask about an attempt until a gate has judged it."""
        event = event or self._next()
        body = {"session_id": session, "event_id": event, "call_id": f"c{event}", "tool": tool, "agent": agent}
        answer = await self._post("/v1/check", body, lambda found: found.get("judged") is not False)
        self._tally.count_answer()
        return answer

    def _next(self) -> str:
        self._asked += 1
        return f"{self._number}-{self._asked}"

    async def _post(
        self, path: str, body: dict[str, Any], is_answer: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        began = time.monotonic()
        tries = 0
        while time.monotonic() - began < _PATIENCE:
            asked = time.monotonic()
            try:
                async with asyncio.timeout(_ASK_ELSEWHERE):
                    answer = await self._http.post(self._random.choice(self._fleet.urls), path, body)
            except (Unanswered, TimeoutError):
                answer = {"judged": False}
            if is_answer(answer):
                if path == "/v1/check" and not tries:
                    self._tally.seconds.append(time.monotonic() - asked)
                return answer
            tries += 1
            self._tally.repeated += 1
            await asyncio.sleep(0.05)
        raise AssertionError(f"refused for good: {body}")

    async def share_a_limit(self, sessions: int, agents: int) -> None:
        """Ask about a limit that other clients use up too."""
        session, agent = f"s{self._random.randrange(sessions)}", f"a{self._random.randrange(agents)}"
        question = Question(session, agent, self._random.choice(("look", "look", "pay")))
        answer = await self.ask(question.session, question.tool, question.agent)
        self._tally.asked.append(question)
        self._tally.allowed[question.limit] += answer["action"] == "allow"

    async def play(self) -> None:
        """Play an episode of which the right answers are known."""
        episodes = (self._confirm, self._fail, self._wait_for_a_yes, self._go_on_after_the_end)
        episode = episodes[next(self._tally.turns) % len(episodes)]
        session = f"e{self._number}-{self._asked}"
        await episode(session)
        self._tally.episodes[episode.__name__.strip("_")] += 1

    async def _expect(self, session: str, tool: str, action: str, event: str = "") -> dict[str, Any]:
        answer = await self.ask(session, tool, event=event)
        if answer["action"] != action:
            self._tally.wrong.append(f"{session} {tool}: {answer}, and not {action}")
        return answer

    async def _confirm(self, session: str) -> None:
        await self._expect(session, "refund", "block")
        await self._expect(session, "confirm", "allow")
        await self._expect(session, "refund", "allow")

    async def _fail(self, session: str) -> None:
        for _ in range(FAILS):
            event = self._next()
            await self._expect(session, "fetch", "allow", event)
            result = {"kind": "tool_result", "session_id": session, "call_id": f"c{event}", "status": "error"}
            told = {"events": [{**result, "event_id": f"r{event}"}]}
            await self._post("/v1/events", told, lambda found: found.get("accepted") == 1)
        await self._expect(session, "fetch", "block")

    async def _wait_for_a_yes(self, session: str) -> None:
        event, verdict = self._next(), self._random.choice(("approve", "reject"))
        paused = await self._expect(session, "wire", "pause", event)
        await self._expect(session, "settle", "block")
        await self._answer(paused["review"]["id"], verdict)
        action = "allow" if verdict == "approve" else "block"
        await self._expect(session, "wire", action, event)
        await self._expect(session, "settle", action)

    async def _answer(self, review: str, verdict: str) -> None:
        """Answer a review until that is taken. When nobody heard that it was, the next try is told so: 409."""
        while True:
            try:
                path = f"/v1/reviews/{review}/{verdict}"
                await self._http.post(self._random.choice(self._fleet.urls), path, {"by": "ada"})
            except Unanswered as error:
                if "409" in str(error):
                    return
                self._tally.repeated += 1
                await asyncio.sleep(0.05)
            else:
                return

    async def _go_on_after_the_end(self, session: str) -> None:
        await self._expect(session, "look", "allow")
        await self._expect(session, "leak", "terminate_session")
        await self._expect(session, "look", "terminate_session")


async def run(
    fleet: Fleet,
    random: Random,
    *,
    clients: int,
    checks: int,
    kill_every: float = 0.0,
    kills: int = 0,
    pace: float = 0.0,
    seconds: float = inf,
) -> Tally:
    """Let clients ask so many questions in all, and kill a gate every so many seconds, or so often among them.

    ``pace``: seconds that a client waits before its next question.
    """
    end = time.monotonic() + seconds
    tally, sessions, agents = Tally(), max(1, checks // 60), max(1, checks // 120)

    async def work(number: int) -> None:
        own = Random(f"{number}-{random.random()}")
        async with Connections() as http:
            client = Client(number, fleet, tally, own, http)
            while tally.answers < checks and time.monotonic() < end:
                await (client.play() if own.random() < 0.1 else client.share_a_limit(sessions, agents))
                if pace:
                    await asyncio.sleep(own.expovariate(1 / pace))

    over = asyncio.Event()

    async def disturb() -> None:
        while not over.is_set() and (kill_every or fleet.kills < kills):
            if kill_every:
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), kill_every)
            else:
                await tally.reach(checks * (fleet.kills + 1) // (kills + 1))
            if kill_every and random.random() < _FREEZES:
                await fleet.freeze_one(random)
            else:
                await asyncio.to_thread(fleet.kill_one, random)

    disturbing = asyncio.create_task(disturb())
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(work(number))
    finally:
        over.set()
        await disturbing  # which may be starting a gate
    return tally


def allowed_by_one_guard(asked: list[Question]) -> Counter[str]:
    """Return what one guard allows under each limit when it is asked the same questions."""
    guard = Guard(load_policy(POLICY, build_registry(), file="policy.yaml"))
    allowed: Counter[str] = Counter()
    for number, question in enumerate(asked):
        call = ToolCall(
            session_id=question.session,
            event_id=f"e{number}",
            call_id=f"c{number}",
            tool=question.tool,
            agent=question.agent,
        )
        allowed[question.limit] += guard.check(call).action is Action.ALLOW
    return allowed
