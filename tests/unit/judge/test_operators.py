"""``matches`` looks into content blocks as ``contains`` does, and a response has a text."""

from __future__ import annotations

import pytest

from stream_guard.judge.conditions import Condition
from stream_guard.judge.model import Event, Json, Turn
from stream_guard.testing import events

SAID: list[Json] = [
    {"type": "text", "text": "I will look."},
    {"type": "tool_use", "id": "1", "name": "issue_refund", "input": {"note": "secret"}},
    {"type": "text", "text": "Done on 5 May."},
]


def turn(content: list[Json]) -> Event:
    (made,) = [event for event in events([{"turn": None, "response": {"content": content}}]) if isinstance(event, Turn)]
    return made


@pytest.mark.parametrize(
    ("op", "value", "holds"),
    [
        ("contains", "will look", True),
        ("contains", "issue_refund", True),
        ("matches", r"look\.$", True),
        ("matches", r"^Done on \d", True),
        ("matches", "^issue_", True),
        ("matches", r"look\.\s+Done", False),  # two blocks are two texts
        ("matches", "secret", False),
        ("matches", "tool_use", False),
    ],
)
def test_an_operator_on_content_blocks(op: str, value: str, holds: bool) -> None:
    assert Condition({"path": "response.content", "op": op, "value": value}).holds(turn(SAID)) is holds


def test_a_list_of_texts_matches_by_each_of_them() -> None:
    (call,) = events([{"call": "run", "args": {"flags": ["--quiet", "--force", 5, None, {"text": 7}]}}])
    assert Condition({"path": "tool.args.flags", "op": "matches", "value": "^--f"}).holds(call)
    assert not Condition({"path": "tool.args.flags", "op": "matches", "value": "quiet.*force"}).holds(call)
    assert not Condition({"path": "tool.args.flags", "op": "matches", "value": "7"}).holds(call)
