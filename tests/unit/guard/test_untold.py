"""What a gate found is told, whatever fails between its store and its history: once to people, under one id."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_guard.errors import SinkError, StoreError, StreamGuardError
from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.guard.untold import LEASE, UntoldAlerts
from stream_guard.history.database import Database, open_database
from stream_guard.judge.model import Action, Alert, ToolCall, ToolResult
from stream_guard.judge.spec import Policy
from stream_guard.storage.shared import SharedStore
from stream_guard.storage.stores import CheckpointStore
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS
from tests.history.postgres import started

POLICY = Policy(
    rules=(
        rule_spec(KINDS["forbidden_text"], {"text": "SECRET", "where": "tool_result"}, rule_id="no-secrets"),
        rule_spec(KINDS["no_call"], {"tool": "wire"}, rule_id="no-wires", then=Action.BLOCK),
        rule_spec(KINDS["no_call"], {"tool": "look"}, rule_id="told-of", then=Action.ALLOW),
    ),
    version="v1",
)


def told(number: int = 1, session: str = "s") -> ToolResult:
    return ToolResult(session_id=session, event_id=f"r{number}", call_id=f"c{number}", tool="read", output="SECRET")


def asked(tool: str, session: str = "s") -> ToolCall:
    return ToolCall(session_id=session, event_id=f"q-{tool}", call_id=f"q-{tool}", tool=tool)


class World:
    """A gate with a history, a store or none, and someone who is alerted."""

    def __init__(self, folder: Path, *, stored: bool) -> None:
        self.folder, self.stored = folder, stored
        self.sent: list[Alert] = []
        self.refuse: StreamGuardError | None = None
        self.opened: list[Any] = []
        self.gate = self.start()

    def start(self) -> Gate:
        self.history = open_database(str(self.folder / "history.db"))
        store = CheckpointStore(self.folder / "state.db") if self.stored else None
        self.opened = [self.history, *([store] if store is not None else [])]
        self.gate = Gate(POLICY, self.history, guard=Guard(POLICY, store=store), outgoing=self.send)
        return self.gate

    def restart(self) -> Gate:
        self.close()
        return self.start()

    def send(self, alerts: Sequence[Alert]) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.sent += alerts

    def close(self) -> None:
        for part in self.opened:
            part.close()

    def rules(self) -> list[str]:
        return [alert.rule_id for alert in self.sent]


def incidents(history: Database) -> list[int]:
    tables = ("sg_alerts", "sg_incidents", "sg_timeline")
    return [history.read(f"SELECT count(*) FROM {table}")[0][0] for table in tables]


@pytest.fixture(params=[True, False], ids=["stored", "in-memory"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    with closing(World(tmp_path, stored=request.param)) as made:
        yield made


@contextmanager
def full_outbox(world: World) -> Iterator[None]:
    world.refuse = SinkError("no space left for alerts that wait to be sent", retryable=True)
    yield
    world.refuse = None


@contextmanager
def locked_history(world: World) -> Iterator[None]:
    with closing(sqlite3.connect(world.folder / "history.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


OBSTACLES = [full_outbox, locked_history]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_guard.history.database._PATIENCE", 0.05)


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_an_event_that_is_told_again_after_a_failure_has_its_alert(
    world: World, obstacle: Callable[[World], Any]
) -> None:
    with obstacle(world), pytest.raises((SinkError, StoreError)):
        world.gate.observe(told())
    assert [alert.rule_id for alert in world.gate.observe(told())] == ["no-secrets"]
    assert set(world.rules()) == {"no-secrets"}
    assert incidents(world.history) == [1, 1, 1]
    world.gate.observe(told())
    assert incidents(world.history) == [1, 1, 1]


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize(("tool", "action"), [("wire", Action.BLOCK), ("look", Action.ALLOW)])
def test_a_question_that_is_asked_again_after_a_failure_has_the_same_answer_and_its_alert(
    world: World, obstacle: Callable[[World], Any], tool: str, action: Action
) -> None:
    with obstacle(world), pytest.raises((SinkError, StoreError)):
        world.gate.check(asked(tool))
    assert world.gate.check(asked(tool)).action is action
    assert len({alert.alert_id for alert in world.sent}) == 1
    assert incidents(world.history) == [1, 1, 1]
    assert world.history.read("SELECT count(*) FROM sg_reviews") == [(0,)]


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_another_session_tells_what_a_failure_left_and_is_not_blamed_for_it(
    world: World, obstacle: Callable[[World], Any]
) -> None:
    with obstacle(world), pytest.raises((SinkError, StoreError)):
        world.gate.observe(told())
    assert world.gate.observe(ToolResult(session_id="other", event_id="r", call_id="c", tool="read", output="ok")) == []
    assert world.rules()[-1] == "no-secrets"
    assert incidents(world.history) == [1, 1, 1]


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_restart_tells_what_a_failure_left(tmp_path: Path, obstacle: Callable[[World], Any]) -> None:
    with closing(World(tmp_path, stored=True)) as world:
        with obstacle(world), pytest.raises((SinkError, StoreError)):
            world.gate.observe(told(1), told(2, "other"))
        world.restart().tell_left()
        assert sorted({alert.session_id for alert in world.sent}) == ["other", "s"]
        assert incidents(world.history) == [2, 2, 2]
        world.sent.clear()
        world.gate.guard.commit()  # as a server that is stopped
        world.restart().tell_left()
        assert world.sent == []


@pytest.mark.parametrize("session", ["s", "~", "x" * 5000, "sg_alert", "\N{SNOWMAN}'; DROP"])
def test_a_restart_adds_to_the_incident_of_any_session(tmp_path: Path, session: str) -> None:
    with closing(World(tmp_path, stored=True)) as world:
        world.gate.observe(told(1, session))
        with full_outbox(world), pytest.raises(SinkError):
            world.gate.observe(told(2, session))
        world.restart().tell_left()
        assert {alert.session_id for alert in world.sent} == {session}
        assert incidents(world.history) == [2, 1, 2]


def test_after_a_policy_change_an_alert_still_names_the_policy_that_made_it(tmp_path: Path) -> None:
    with closing(World(tmp_path, stored=True)) as world:
        with full_outbox(world), pytest.raises(SinkError):
            world.gate.observe(told())
        world.gate.use(world.gate.guard.judge_for(Policy(rules=(), version="v2")))
        world.gate.tell_left()
        assert [alert.policy_version for alert in world.sent] == ["v1"]


def test_an_alert_is_told_by_another_gate_of_the_same_store_when_its_own_has_died(tmp_path: Path) -> None:
    with started() as postgres, closing(open_database(str(tmp_path / "history.db"))) as history:
        dead, alive = SharedStore(postgres.address), SharedStore(postgres.address)
        sent: list[Alert] = []

        def die(_alerts: Sequence[Alert]) -> None:
            raise StoreError("killed")

        first = Gate(POLICY, history, guard=Guard(POLICY, store=dead, clock=dead.time), outgoing=die)
        second = Gate(POLICY, history, guard=Guard(POLICY, store=alive, clock=alive.time), outgoing=sent.extend)
        with pytest.raises(StoreError):
            first.observe(told())
        dead.close()
        second.observe(told(2, "other"))  # it has just looked, and whoever made the first may be telling it
        assert [alert.session_id for alert in sent] == ["other"]
        now = [0.0]
        later = UntoldAlerts(alive, clock=lambda: now[0])
        assert [one.alert.session_id for one in later.waiting()] == ["s"]
        sent.clear()
        third = Gate(POLICY, history, guard=Guard(POLICY, store=alive, clock=alive.time), outgoing=sent.extend)
        third.tell_left()
        assert [alert.session_id for alert in sent] == ["s"]
        assert alive.alerts() == []
        assert incidents(history) == [2, 2, 2]
        alive.close()


def test_a_gate_that_shares_a_store_takes_up_what_is_older_than_its_lease(tmp_path: Path) -> None:
    with started() as postgres:
        store, now = SharedStore(postgres.address), [1000.0]
        made, other = (UntoldAlerts(store, clock=lambda: now[0]) for _ in range(2))
        alert = Alert(**{"alert_id": "a", "rule_id": "r", "kind": "k", "severity": "high", "session_id": "s"} | REST)

        def make() -> None:
            made.begin()
            made.add([alert], is_followup=True)

        store.together([], make)
        made.end()
        for seconds, waits in ((LEASE / 2, False), (LEASE / 4, False), (LEASE / 2, True)):
            now[0] += seconds
            other.look_around()
            assert bool(other) is waits
        store.close()


REST: dict[str, Any] = {"event_id": "e", "index": None, "time": 1.0, "detail": "", "policy_version": "v"}
