"""Values of callers in this process that are nested without end: judged alike in every mode, and no crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from stream_guard.guard.inline import Guard
from stream_guard.judge.content import UNREADABLE
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Action, Event, Finding, ToolCall, ToolResult, Turn
from stream_guard.judge.rule import Mode
from stream_guard.judge.spec import Policy
from stream_guard.running.batch import evaluate
from stream_guard.storage.stores import CheckpointStore
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS

POLICY = Policy(
    rules=(
        rule_spec(KINDS["tool_guard"], {"when": {"arg_gt": {"path": "a", "value": 5}}}, then=Action.BLOCK),
        rule_spec(KINDS["no_call"], {"tool": "drop"}, rule_id="drop", then=Action.BLOCK),
    ),
    version="v1",
)
BY_NAME = Policy(rules=POLICY.rules[1:], version="v1")
DEEP = (201, 20_000)


def nested(levels: int, leaf: Any = 1) -> dict[str, Any]:
    value: Any = leaf
    for number in range(levels):
        value = {"a": value} if number % 2 else [value]
    return {"a": value}


def itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = [value]
    return value


JudgeBy: TypeAlias = Callable[[Counts, list[Event]], list[Finding]]


def by_table(mode: Mode) -> JudgeBy:
    def judge(counts: Counts, events: list[Event]) -> list[Finding]:
        found: list[Finding] = []
        table = Judge(POLICY, mode=mode, counts=counts)
        for event in events:
            found += table.feed(event).findings
        table.commit()
        found += table.end()
        return found

    return judge


def by_guard(counts: Counts, events: list[Event]) -> list[Finding]:
    guard = Guard(POLICY, counts=counts)
    return [finding for event in events for finding in guard.observe(event)]


MODES: dict[str, JudgeBy] = {
    "inline": by_guard,
    "stream": by_table("stream"),
    "batch": by_table("batch"),
    "evaluate": lambda counts, events: evaluate(events, POLICY, counts=counts),
}
ARGS = pytest.mark.parametrize("args", [*map(nested, DEEP), itself()], ids=[*map(str, DEEP), "itself"])
EVENT_IDS = pytest.mark.parametrize("event_id", ["e1", ""])


@ARGS
@EVENT_IDS
@pytest.mark.parametrize("mode", MODES)
def test_no_mode_fails_at_a_call_that_is_nested_too_deep(mode: str, args: Any, event_id: str) -> None:
    """A rule that reads arguments could not judge it, one that goes by the name fires, and the call counts once."""
    call = ToolCall(session_id="s", event_id=event_id, tool="drop", call_id="c", args=args)
    block = {"type": "tool_use", "id": "d", "name": "drop", "input": args}
    turn = Turn(session_id="s", event_id=event_id and "t1", response={"content": [block]})
    counts = Counts()
    found = MODES[mode](counts, [call, turn])
    assert [one.rule_id for one in found] == ["drop"] * 2
    assert dict(counts.lacking) == {("rule", UNREADABLE): 2}
    assert counts.tools["drop"] == 2


@ARGS
@EVENT_IDS
def test_a_question_about_such_a_call_is_stopped_by_rules_that_read_it(
    args: Any, event_id: str, tmp_path: Path
) -> None:
    attempt = ToolCall(session_id="s", event_id=event_id, tool="pay", call_id="c", args=args)
    for number, (policy, action) in enumerate([(POLICY, Action.BLOCK), (BY_NAME, Action.ALLOW)]):
        store = CheckpointStore(tmp_path / f"{number}.db")
        answers = [Guard(policy, store=store).check(attempt).action for _ in range(2)]
        store.close()
        assert answers == [action] * 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("levels", DEEP)
def test_results_that_are_nested_too_deep_are_told_apart(mode: str, levels: int) -> None:
    """A redelivery is dropped, and another result under the same id is not."""
    first, other = nested(levels), nested(levels, leaf=2)
    events: list[Event] = [
        ToolResult(session_id="s", event_id="r", call_id="c", status="ok", output=output)
        for output in (first, first, other)
    ]
    events.append(Turn(session_id="s", event_id="t", response={"content": [first]}))
    counts = Counts()
    assert MODES[mode](counts, events) == []
    assert (counts.duplicate_events, counts.changed_events) == (1, 1)


def test_arguments_that_are_nested_as_deep_as_allowed_are_read() -> None:
    for judge in MODES.values():
        counts = Counts()
        call = ToolCall(session_id="s", event_id="e", tool="pay", call_id="c", args=nested(199))
        assert judge(counts, [call]) == []
        assert not counts.lacking
