"""A guard that is killed goes on with what it stored, and with changes that an earlier version stored behind rows."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, Event, ToolCall, ToolResult, UserMessage
from stream_guard.judge.rows import read_row
from stream_guard.judge.spec import Policy
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import CheckpointStore
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS

RULES = (
    rule_spec(KINDS["max_calls"], {"tool": "*", "n": 80}, rule_id="many", then=Action.BLOCK),
    rule_spec(KINDS["max_calls"], {"tool": "*", "n": 9}, rule_id="of-a-kind", key=["args.k"], then=Action.BLOCK),
    rule_spec(KINDS["max_failed_calls"], {"tool": "*", "n": 4}, rule_id="failing", then=Action.BLOCK),
    rule_spec(KINDS["must_call_before"], {"first": "b", "second": "c"}, rule_id="order", then=Action.BLOCK),
)
POLICY = Policy(rules=RULES, version="v1")
LIMITS = SessionLimits(duplicate_window=200)


def call(number: int, tool: str = "a", kind: str = "x", session: str = "s") -> ToolCall:
    name = f"{number}-{tool}-{kind}"
    return ToolCall(session_id=session, event_id=f"e{name}", call_id=f"c{name}", tool=tool, args={"k": kind})


def fill(guard: Guard, calls: int) -> None:
    for number in range(calls):
        guard.check(call(number, kind=str(number % 50)))


steps = st.one_of(
    st.builds(call, st.integers(0, 8), st.sampled_from("abc"), st.sampled_from("xyz")),
    st.builds(
        lambda of, status: ToolResult(
            session_id="s", event_id=f"r{of.event_id}", call_id=of.call_id, tool=of.tool, status=status
        ),
        st.builds(call, st.integers(0, 8), st.sampled_from("abc"), st.sampled_from("xyz")),
        st.sampled_from(("ok", "error")),
    ),
    st.builds(lambda number: UserMessage(session_id="s", event_id=f"u{number}", text="go on"), st.integers(0, 8)),
)


def answer(guard: Guard, event: Event) -> tuple[Action, tuple[str, ...]] | list[str]:
    if isinstance(event, ToolCall):
        decision = guard.check(event)
        return decision.action, decision.rule_ids
    return [finding.rule_id for finding in guard.observe(event)]


@given(st.lists(st.tuples(steps, st.booleans()), max_size=12), st.sampled_from((60, 97, 160)))
def test_a_guard_that_is_killed_again_and_again_answers_as_one_that_is_not(
    told: list[tuple[Event, bool]], before: int
) -> None:
    steady = Guard(POLICY, limits=LIMITS)
    fill(steady, before)
    wanted = [answer(steady, event) for event, _ in told]
    found = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        with closing(CheckpointStore(path)) as store:
            fill(Guard(POLICY, store=store, limits=LIMITS), before)
        left = list(told)
        while left:  # until the next kill
            with closing(CheckpointStore(path)) as store:
                guard = Guard(POLICY, store=store, limits=LIMITS)
                while left:
                    event, killed = left.pop(0)
                    found.append(answer(guard, event))
                    if killed:
                        break
    assert found == wanted


STORED = json.loads((Path(__file__).parents[2] / "golden" / "stored" / "changes.json").read_text())
"""Written by the last version that stored changes, after calls as ``fill`` makes them."""


def checkpoint_of_before(path: Path) -> None:
    """Write what that version left: a row, and the changes behind it in a table of their own."""
    with closing(CheckpointStore(path)) as store:
        store.put("s", bytes.fromhex(STORED["blob"]), STORED["deadline"])
        store.commit({})
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE changes (id BLOB NOT NULL, change BLOB NOT NULL, deadline REAL)")
        changes = [(b"s", bytes.fromhex(change), deadline) for change, deadline in STORED["changes"]]
        database.executemany("INSERT INTO changes VALUES (?, ?, ?)", changes)


def test_changes_that_an_earlier_version_stored_behind_a_row_are_read(tmp_path: Path) -> None:
    path, calls = tmp_path / "state.db", STORED["calls"]
    checkpoint_of_before(path)
    steady = Guard(POLICY, limits=LIMITS, clock=lambda: 1000.0)
    fill(steady, calls)
    for _ in range(2):  # the second time, the file is one of this version
        with closing(CheckpointStore(path)) as store:
            guard = Guard(POLICY, store=store, limits=LIMITS, clock=lambda: 1000.0)
            later = range(calls, calls + 10)
            assert [answer(guard, call(n, kind="x")) for n in later] == [
                answer(steady, call(n, kind="x")) for n in later
            ]
            assert guard.counts.state_resets == 0
        calls += 10


def test_a_change_that_was_cut_is_no_session(tmp_path: Path) -> None:
    checkpoint_of_before(tmp_path / "state.db")
    with closing(CheckpointStore(tmp_path / "state.db")) as store:
        value = store.get("s") or b""
        assert read_row(value) is not None
        assert [read_row(value[:length]) for length in (len(value) - 1, 5, 1)] == [None] * 3
        store.put("s", value[:-1], None)
        guard = Guard(POLICY, store=store, limits=LIMITS)
        guard.check(call(1))
        assert guard.counts.state_resets == 1, "it is counted, as every row that cannot be read"
