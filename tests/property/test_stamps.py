"""What the tracker writes on events: both forms write the same."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_guard.engine.names import SeenName
from stream_guard.model import ToolCall, ToolResult, Turn, UserMessage
from stream_guard.sessions import stamps
from stream_guard.sessions.stored import OpenCall
from tests.c_modules import open_c_module


class Names(dict[str, SeenName | None]):
    """Judges a name when it is first asked for."""

    def __missing__(self, written: str) -> SeenName | None:
        judged = self[written] = SeenName(written.lower(), is_lookalike=False) if written.isupper() else None
        return judged


class Word(str):
    """Text of a type of its own."""

    __slots__ = ()


class Stubborn:
    """A value that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    __hash__ = None  # type: ignore[assignment]


TEXTS = st.sampled_from(["", "a", "text", "tool_use", "\xe9\u65e5", "PAY", "pay", Word("text"), Word("tool_use")])
VALUES: st.SearchStrategy[Any] = st.one_of(TEXTS, st.none(), st.integers(0, 3), st.lists(TEXTS, max_size=2))
KINDS = st.one_of(st.sampled_from(["text", "tool_use"]), VALUES)
BLOCKS = st.one_of(
    st.fixed_dictionaries({}, optional={"type": KINDS, "text": VALUES, "name": VALUES, "input": VALUES}), VALUES
)
CONTENTS = st.one_of(st.lists(BLOCKS, max_size=6), VALUES)


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module of the compiled build."""
    return open_c_module(stamps, tmp_path_factory.mktemp("c"))


def written(event: Any) -> list[tuple[type, Any]]:
    """Return the fields of an event with their types, which a comparison would not see."""
    return [(type(value := getattr(event, name)), value) for name in event.__struct_fields__]


@given(CONTENTS, TEXTS, st.lists(TEXTS, max_size=1).map(tuple))
@example([{"type": "text", "text": ""}, {"type": "text", "text": "a"}, {"type": "text", "text": ""}], "", ())
@example([{"type": "tool_use", "name": "PAY"}, {"type": "tool_use"}, {"type": "tool_use", "name": 1}], "", ())
@example("only text", "", ())
def test_turns_are_stamped_alike(in_c: ModuleType, content: Any, text: str, tools: tuple[str, ...]) -> None:
    turns, answers, names = [], [], [Names(), Names()]
    for stamp, known in zip((in_c.stamp_turn, stamps.stamp_turn), names, strict=True):
        turn = Turn(session_id="s", response={"content": content}, text=text, tools=tools)
        answers.append(stamp(turn, content, 7, known))
        turns.append(written(turn))
    assert turns[0] == turns[1]
    assert answers[0] == answers[1]
    assert names[0] == names[1]


@given(st.sampled_from(["", "e", "\xe9", "\u65e5"]), st.sampled_from([0, 9, 10, 12_345]), VALUES, st.booleans(), TEXTS)
def test_calls_in_turns_are_made_alike(
    in_c: ModuleType, event_id: str, number: int, args: Any, parse_error: bool, contested: str
) -> None:
    turn = Turn(
        session_id="s",
        event_id=event_id,
        time=1.5,
        trace_id="t",
        run_id="r",
        agent="a@1",
        agent_path=("b",),
        labels={"k": "v"},
        part="p",
        captured=False,
        index=4,
    )
    made = [form.call_in(turn, number, "pay", "c", args, parse_error, contested) for form in (in_c, stamps)]
    assert written(made[0]) == written(made[1])
    assert copy(made[0]) == made[1]


@given(st.integers(), st.integers(-1, 9), VALUES)
def test_calls_and_results_are_stamped_alike(in_c: ModuleType, attempt: int, index: int, args: Any) -> None:
    opened = OpenCall("c", "pay", attempt, index, in_block=True, in_event=False, args=args)
    calls = [ToolCall(session_id="s", tool="pay", args=[1]) for _ in range(2)]
    results = [ToolResult(session_id="s", args=[1]) for _ in range(2)]
    for form, call, result in zip((in_c, stamps), calls, results, strict=True):
        form.stamp_call(call, opened)
        form.stamp_result(result, opened)
    assert written(calls[0]) == written(calls[1])
    assert written(results[0]) == written(results[1])


@pytest.mark.parametrize("form", ["in_c", "plain"])
def test_an_error_on_the_way_is_raised(in_c: ModuleType, form: str) -> None:
    stamp: Callable[..., Any] = (in_c if form == "in_c" else stamps).stamp_turn
    blocks = [{"type": "tool_use", "name": "pay"}, {"type": Stubborn()}]
    with pytest.raises(ValueError, match="no"):
        stamp(Turn(session_id="s"), blocks, 0, Names())
    with pytest.raises(KeyError):
        stamp(Turn(session_id="s"), blocks[:1], 0, {})


def test_other_events_are_refused(in_c: ModuleType) -> None:
    message, call = UserMessage(session_id="s"), ToolCall(session_id="s", tool="t")
    opened = OpenCall("c", "pay", 1, 1, in_block=True, in_event=False)
    refused: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (in_c.stamp_turn, (message, [], 0, {})),
        (in_c.stamp_turn, (Turn(session_id="s"),)),
        (in_c.call_in, (message, 0, "t", "c", None, False, "")),
        (in_c.stamp_call, (message, opened)),
        (in_c.stamp_call, (call, message)),
        (in_c.stamp_result, (call, opened)),
    ]
    for function, values in refused:
        with pytest.raises(TypeError, match="wanted"):
            function(*values)
