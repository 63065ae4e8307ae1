"""Of a session whose row is stored, a guard writes what changes; whoever reads it has the whole session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, Event, ToolCall, ToolResult, UserMessage
from stream_guard.judge.rows import append, measure, split
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


class CountingStore(CheckpointStore):
    """A checkpoint that counts the bytes it is given."""

    given = 0

    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        self.given += len(blob)
        super().put(session_id, blob, deadline)

    def append(self, session_id: str, change: bytes, deadline: float | None) -> None:
        self.given += len(change)
        super().append(session_id, change, deadline)


@contextmanager
def guarded(path: Path) -> Iterator[tuple[Guard, CountingStore]]:
    with closing(CountingStore(path)) as store:
        yield Guard(POLICY, store=store, limits=LIMITS), store


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
def test_a_guard_that_is_restarted_amid_changes_answers_as_one_that_is_not(
    told: list[tuple[Event, bool]], before: int
) -> None:
    steady = Guard(POLICY, limits=LIMITS)
    fill(steady, before)
    wanted = [answer(steady, event) for event, _ in told]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        with guarded(path) as (guard, _):
            fill(guard, before)
        found = []
        left = list(told)
        while left:  # until the next kill
            with guarded(path) as (guard, _):
                while left:
                    event, killed = left.pop(0)
                    found.append(answer(guard, event))
                    if killed:
                        break
    assert found == wanted


def test_what_a_check_writes_does_not_grow_with_the_session(tmp_path: Path) -> None:
    limits = SessionLimits()
    with closing(CountingStore(tmp_path / "state.db")) as store:
        guard = Guard(Policy(rules=RULES[:1], version="v1"), store=store, limits=limits)
        fill(guard, 450)
        row, _ = measure(store.get("s") or b"")
        written = store.given
        for number in range(450, 480):
            guard.check(call(number))
        # Among them may be the one that writes the row anew.
        assert store.given - written - row < 30 * row / 20
        assert row > 20_000


def test_a_change_that_was_cut_is_no_session(tmp_path: Path) -> None:
    with guarded(tmp_path / "state.db") as (guard, store):
        fill(guard, 60)
        value = store.get("s") or b""
        row, *changes = split(value)
        assert changes
        store.put("s", value[:-1], None)
        store.commit({})
    with guarded(tmp_path / "state.db") as (guard, _):
        guard.check(call(1))
        assert guard.counts.state_resets == 1, "it is counted, as every row that cannot be read"
    assert split(append(append(row, b"1"), b"2")) == [row, b"1", b"2"]
