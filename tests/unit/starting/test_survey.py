"""A survey counts what is in recordings, each call once."""

from __future__ import annotations

import stream_guard as sg
from stream_guard.starting.survey import MOST_ARGUMENTS, MOST_TOOLS, Survey


def turn(session: str, *blocks: tuple[str, str]) -> sg.Turn:
    content = [{"type": "tool_use", "id": call_id, "name": tool, "input": {"a": 1}} for tool, call_id in blocks]
    return sg.Turn(session_id=session, request={}, response={"content": content})


def call(session: str, tool: str, call_id: str, args: sg.Json = None) -> sg.ToolCall:
    return sg.ToolCall(session_id=session, call_id=call_id, tool=tool, args=args)


def surveyed(*events: sg.Event) -> Survey:
    survey = Survey()
    assert list(survey.watch(events)) == list(events)
    return survey


def test_a_call_that_a_response_announced_is_counted_once() -> None:
    survey = surveyed(turn("s", ("read", "c1")), call("s", "read", "c1", {"a": 1}))
    assert survey.tools["read"].calls == 1


def test_an_id_that_is_used_again_is_another_call() -> None:
    first: list[sg.Event] = [turn("s", ("read", "c1")), call("s", "read", "c1")]
    survey = surveyed(*first, *first)
    assert survey.tools["read"].calls == 2
    assert surveyed(*first, call("t", "read", "c1")).tools["read"].sessions == {"s", "t"}


def test_tools_come_with_their_arguments_and_the_most_used_first() -> None:
    survey = surveyed(call("s", "b", "1", {"x": 1}), call("s", "b", "2", {"x": 1, "y": 2}), call("s", "a", "3", "text"))
    assert [name for name, _ in survey.by_calls()] == ["b", "a"]
    assert survey.tools["b"].arguments == {"x": 2, "y": 1}
    assert survey.tools["a"].arguments == {}


def test_invented_names_do_not_fill_the_memory() -> None:
    survey = surveyed(*(call("s", f"t{number}", str(number)) for number in range(MOST_TOOLS + 5)))
    assert len(survey.tools) == MOST_TOOLS
    survey = surveyed(call("s", "t", "1", {str(number): 1 for number in range(MOST_ARGUMENTS + 5)}))
    assert len(survey.tools["t"].arguments) == MOST_ARGUMENTS


def test_a_tool_comes_with_the_classes_that_its_first_definition_speaks_for() -> None:
    tools = [{"name": "x7", "description": "Sends a postcard."}, {"name": "never_called", "description": "Waits."}]
    offer = sg.Turn(session_id="s", request={"tools": tools}, response={"content": []})
    again = sg.Turn(session_id="s", request={"tools": [{"name": "x7", "description": "Gets one."}]}, response={})
    survey = surveyed(call("s", "x7", "1"), offer, again, call("s", "x7", "2"))
    assert set(survey.tools) == {"x7"}
    assert list(survey.tools["x7"].described) == ["egress"]
