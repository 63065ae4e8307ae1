"""Calls that agents write into their texts: found by patterns that anyone can say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_guard.errors import SettingsError
from stream_guard.judge.model import Event, ToolResult
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import load_settings
from tests.formats.session import view

REGISTRY = build_registry()
XML = {
    "call": r'<tool name="(?P<name>[^"]+)">',
    "arguments": r"(?s)^(?P<args>.*?)</tool>",
    "result": r"(?s)^<result>(?P<output>.*)</result>$",
    "error": "^failed",
}


def read(*messages: tuple[str, str], protocol: dict[str, str] | None = None) -> list[Event]:
    settings = load_settings(text_protocol=protocol)
    value = json.dumps([{"role": role, "content": text} for role, text in messages]).encode()
    return list(Assembly(settings, REGISTRY).make_decoder("text-protocol").decode(Record(value)))


def calls(*messages: tuple[str, str], protocol: dict[str, str] | None = None) -> list[tuple[str, str]]:
    return [(one.tool, one.args) for one in view(read(*messages, protocol=protocol)) if one.sort == "call"]


def test_object_behind_the_word_is_a_call_and_what_stands_before_it_was_said() -> None:
    text = 'I look.\nAction:\n{"name": "find", "arguments": {"email": "a@b"}}\n'
    seen = view(read(("user", "hi"), ("assistant", text), ("user", "API output: Error: user not found")))
    assert [(one.sort, one.text, one.tool, one.status) for one in seen] == [
        ("user", "hi", "", ""),
        ("turn", "I look.", "", ""),
        ("call", "", "find", ""),
        ("result", "Error: user not found", "find", "error"),
    ]


def test_name_with_its_input_on_the_next_line_is_a_call() -> None:
    assert calls(("assistant", 'Thought: hm\nAction: pay\nAction Input: {"amount": 3}')) == [("pay", "{'amount': 3}")]


def test_answer_is_what_was_said_and_no_call() -> None:
    [turn] = view(read(("assistant", 'Action:\n{"name": "respond", "arguments": {"content": "Done."}}')))
    assert (turn.sort, turn.text) == ("turn", "Done.")


def test_arguments_that_are_not_json_are_an_attempt_all_the_same() -> None:
    assert calls(("assistant", "Action: pay\nAction Input: all of it")) == [("pay", "'all of it'")]
    assert calls(("assistant", 'Action: {"name": "pay", ')) == [("", '\'{"name": "pay", \'')]


def test_another_protocol_is_said_in_settings() -> None:
    text = 'First.<tool name="look">{"id": 1}</tool><tool name="pay">{"id": 2}</tool>'
    messages = (("assistant", text), ("user", "<result>fine</result>"), ("user", "<result>failed: no</result>"))
    assert calls(*messages, protocol=XML) == [("look", "{'id': 1}"), ("pay", "{'id': 2}")]
    results = [event for event in read(*messages, protocol=XML) if isinstance(event, ToolResult)]
    assert [(one.call_id, one.output, one.status) for one in results] == [
        ("0.0", "fine", "ok"),
        ("0.1", "failed: no", "error"),
    ]


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ({"call": "("}, "missing"),
        ({"call": "(?=x)(?P<name>y)"}, "look-ahead is not linear"),
        ({"call": "Action"}, r"needs a group \(\?P<name>"),
        ({"result": "x"}, r"needs a group \(\?P<output>"),
        ({"cal": "x"}, 'did you mean "text_protocol.call"'),
    ],
)
def test_pattern_that_cannot_be_used_is_refused_before_anything_is_read(protocol: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(text_protocol=protocol)


def test_pattern_of_a_settings_file_is_blamed_on_its_line(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("text_protocol:\n  error: '('\n")
    with pytest.raises(SettingsError, match=r"settings.yaml:2: setting text_protocol.error"):
        load_settings(file)
