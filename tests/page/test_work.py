"""How much work pages are: counted, not timed, so that a busy machine changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stream_guard.history import kept_events
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import ToolCall, UserMessage
from stream_guard.page.sessions_view import StateReader
from tests.page.house import House, open_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        yield opened


def test_a_long_session_is_folded_in_turns_so_that_others_do_not_wait_for_it(house: House) -> None:
    calls = [ToolCall(session_id="s", tool="read", event_id=f"e{n}", time=1e9 + n) for n in range(1, 1_001)]
    house.keep(*calls)
    session = kept_events.find_session(house.database, "s")
    assert session is not None
    reached: list[int] = []

    def note(_seconds: float) -> None:
        reached.append(states._folded(session, house.gate.policy)[0].reached)

    states = StateReader(house.database, note)
    assert states.changes(session, house.gate.policy, 1_000, 1_000)[1_000][0].after == "calls 1000"
    turns = [later - earlier for earlier, later in pairwise([*reached, 1_000])]
    assert max(turns) <= 25
    assert len(turns) == 40


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the history from here on."""
    run, asked = SqliteDatabase.run, list[str]()

    def note(self: SqliteDatabase, sql: str, *values: Any) -> list[Any]:
        asked.append(sql)
        return run(self, sql, *values)

    monkeypatch.setattr(SqliteDatabase, "run", note)
    return asked


def test_a_list_asks_the_history_as_often_for_fifty_sessions_as_for_two(house: House, statements: list[str]) -> None:
    def asked_for(path: str) -> int:
        house.get("/rules")  # what is remembered for a moment is remembered
        statements.clear()
        house.get(path)
        return len(statements)

    for session in ("a", "b"):
        house.keep(UserMessage(session_id=session, event_id="u", text="hello"))
    few = asked_for("/sessions")
    for number in range(50):
        house.call("wipe", session=f"s{number}")
        house.keep(UserMessage(session_id=f"s{number}", event_id="u", text="hello"))
    assert 'class="count' in house.get("/sessions")
    assert asked_for("/sessions") == few


def test_a_session_asks_the_history_as_often_for_a_hundred_findings_as_for_one(
    house: House, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "stream_guard.page.sessions_view._AT_ONCE", -1
    )  # as for a session that is long and not folded yet
    monkeypatch.setattr(StateReader, "prepare", lambda *_: None)
    for session, calls in (("one", 1), ("many", 100)):
        for number in range(calls):
            house.call("wipe", session=session, number=number + 1)
    house.keeper.flush()

    def asked_for(session: str) -> int:
        house.get("/rules")  # what is remembered for a moment is remembered
        statements.clear()
        house.get(f"/sessions/{session}")
        return len(statements)

    assert asked_for("many") <= asked_for("one") + 3  # a hundred ids do not go into one statement
    page = house.get("/sessions/many")
    assert "100 findings" in page
    assert 'class="step step-tool_call found"' in page
