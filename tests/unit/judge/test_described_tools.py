"""What descriptions and schemas of tools say about their class."""

from __future__ import annotations

from typing import Any

import pytest

from stream_guard.judge.model import ToolResult, Turn
from stream_guard.starting.survey import described_classes, offered_tools


@pytest.mark.parametrize(
    ("description", "classes"),
    [
        ("Sends a postcard to a neighbour.", {"egress"}),
        ("Use this tool to delete an allotment for good.", {"delete", "write"}),
        ("Allows the agent to book a rowing boat", {"write"}),
        ("Refund a ticket of the fair.", {"money"}),
        ("Returns the letters that were sent this week.", {"read"}),
        ("Searches the seed bank; never deletes anything.", {"read"}),
        ("Looks up a patient by the number of the card.", {"read", "identify"}),
        ("Does not send anything. Lists drafts.", {"read"}),
        ("A thing about deleted files and sent mail.", set()),
        ("", set()),
        ("東京に送る", set()),
        ("x" * 100_000, set()),
    ],
)
def test_the_first_verb_of_a_description_says_what_a_tool_does(description: str, classes: set[str]) -> None:
    assert set(described_classes({"name": "x7", "description": description})) == classes


@pytest.mark.parametrize(
    ("arguments", "classes"),
    [
        (["amount", "payee_iban"], {"money"}),
        (["recipient", "messageBody"], {"egress"}),
        (["amount"], set()),
        (["colour"], set()),
    ],
)
def test_arguments_tell_where_the_verb_leaves_open_what_is_done(arguments: list[str], classes: set[str]) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in arguments}}
    definition = {"description": "Process one item.", "input_schema": schema}
    assert set(described_classes(definition)) == classes
    looks: dict[str, Any] = {**definition, "description": "Gets one item."}
    assert set(described_classes(looks)) == {"read"}


def test_a_class_comes_with_the_words_that_speak_for_it() -> None:
    assert described_classes({"description": "Sends a postcard."}) == {
        "egress": "its description reads send_postcard, which is send_*"
    }
    paid = described_classes({"description": "Process one.", "parameters": {"amount": {}, "payee": {}}})
    assert paid == {"money": "its description reads process_one, and it takes amount and payee"}


def test_tools_are_offered_by_requests_and_by_listings_of_servers() -> None:
    tools = [{"type": "function", "function": {"name": "a"}}, {"name": "b"}, {"name": 7}, "c", None]
    asked = Turn(session_id="s", request={"tools": tools}, response={})
    listed = ToolResult(session_id="s", tool="acme/tools/list", output={"tools": tools})
    assert [name for name, _ in offered_tools(asked)] == [name for name, _ in offered_tools(listed)] == ["a", "b"]
    assert not list(offered_tools(ToolResult(session_id="s", tool="other", output={"tools": tools})))
