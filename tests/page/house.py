"""A page over a real history, and what tests do with it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from stream_guard.guard.gate import Gate
from stream_guard.guard.reviews import Reviews
from stream_guard.history.database import Database, open_database
from stream_guard.history.kept_events import EventKeeper
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event, ToolCall
from stream_guard.page.app import make_page
from stream_guard.page.parts import PageParts
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from stream_guard.serve.access import Door, LocalDoor, TokenDoor
from stream_guard.serve.tokens import TokenEntry, TokenFile, make_token, write_tokens
from stream_guard.settings import Settings
from stream_guard.worker.rollouts import ListedRollout

POLICY = """
name: house
rules:
  - {id: no-wipe, kind: no_call, params: {tool: wipe}, severity: critical, then: block, reason: Nothing is wiped.}
  - {id: ask, kind: no_call, params: {tool: wire}, severity: warning, then: pause, reason: A person looks at wires.}
  - {id: quiet, kind: no_call, params: {tool: never_called}, severity: info}
  - {id: few-reads, kind: max_calls, params: {tool: read, n: 2}, severity: info}
"""


@cache
def _installed() -> Registry:
    return build_registry()


@dataclass
class House:
    """A gate and a page that share a history."""

    folder: Path
    database: Database
    gate: Gate
    keeper: EventKeeper
    client: TestClient
    tokens: dict[str, str]

    def call(self, tool: str, session: str = "s1", **fields: Any) -> Any:
        number = fields.pop("number", 0) or time.monotonic_ns()
        attempt = ToolCall(
            session_id=session, tool=tool, call_id=f"c{number}", event_id=f"e{number}", time=time.time(), **fields
        )
        return self.gate.check(attempt)

    def keep(self, *events: Event) -> None:
        self.keeper.keep(events)
        self.keeper.flush()

    def get(self, path: str, **options: Any) -> str:
        answer = self.client.get(path, **options)
        assert answer.status_code == 200, (answer.status_code, answer.text[:2000])
        return answer.text

    def post(self, path: str, **fields: Any) -> Any:
        mark = re.search(r'name="csrf" value="([0-9a-f]+)"', self.client.get("/reviews").text)
        form = {"csrf": mark.group(1) if mark else self.mark(), **fields}
        return self.client.post(path, data=form, follow_redirects=False)

    def mark(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.client.get(f"/alerts/{self.an_alert()}").text)
        assert found is not None
        return found.group(1)

    def policy_mark(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.client.get("/policy").text)
        assert found is not None
        return found.group(1)

    def an_alert(self) -> str:
        [(name,)] = self.database.read("SELECT id FROM sg_alerts ORDER BY number DESC LIMIT 1")
        return str(name)

    def sign_in(self, name: str) -> None:
        self.client.cookies.clear()
        answer = self.client.post("/sign-in", data={"token": self.tokens[name], "next": "/"}, follow_redirects=False)
        assert answer.status_code == 303, answer.text


@contextmanager
def open_house(
    folder: Path,
    people: dict[str, dict[str, Any]] | None = None,
    rollouts: Callable[[], Sequence[ListedRollout]] = tuple,
    **settings: Any,
) -> Iterator[House]:
    with ExitStack() as opened:
        address = str(folder / "history.db")
        tokens, door = _door(folder, people)
        policy_file = folder / "policy.yaml"
        policy_file.write_text(POLICY)
        registry = _installed()
        policy = load_policy(policy_file, registry)
        chosen = Settings(history={"url": address}, **settings)
        database, shown = open_database(address), open_database(address)
        opened.callback(database.close)
        opened.callback(shown.close)
        keeper = EventKeeper(database, chosen.page)
        opened.callback(keeper.close)
        reviews = Reviews(database, chosen.reviews)
        gate = Gate(policy, database, reviews=reviews, emit=lambda event: keeper.keep((event,)))
        parts = PageParts(
            database=shown,
            reviews=Reviews(shown, chosen.reviews),
            policy=lambda: policy,
            door=door,
            settings=chosen,
            registry=registry,
            counts=Counts(),
            policy_file=policy_file,
            rollouts=rollouts,
        )
        app, _ = make_page(parts)
        client = opened.enter_context(TestClient(app, base_url="http://127.0.0.1:8750"))  # one loop for all requests
        yield House(folder, database, gate, keeper, client, tokens)


def _door(folder: Path, people: dict[str, dict[str, Any]] | None) -> tuple[dict[str, str], Door]:
    if people is None:
        return {}, LocalDoor()
    tokens, entries = {}, []
    for name, fields in people.items():
        tokens[name], digest = make_token()
        entries.append(TokenEntry(name=name, sha256=digest, **fields))
    write_tokens(folder / "tokens.jsonl", entries)
    return tokens, TokenDoor(TokenFile(folder / "tokens.jsonl"))
