"""What a sentence stands in decides what it says: lists, headings, labels, blocks, examples, descriptions of tools."""

from __future__ import annotations

from typing import Any

import pytest
from stream_guard_compliance import extract
from stream_guard_compliance.reading.sentences import read_prompt

TOOLS = ["pay_bill", "check_user", "find_page", "send_mail", "shell"]


def kinds(prompt: str) -> list[tuple[str, bool]]:
    found = [one.reading for one in read_prompt(prompt, TOOLS)]
    return [(reading.kind, reading.concrete) for reading in found if reading.why not in {"a heading", "opens a list"}]


@pytest.mark.parametrize(
    "prompt",
    [
        "If the bill is old, apologize. You must call pay_bill.",
        "- If the bill is old, apologize. Never call pay_bill.",
        "Then you must call pay_bill.",
        "Finally, you must call pay_bill.",
        "# Plan mode\n- Never call pay_bill.",
        "## Phase 2\nYou must call pay_bill.",
        "# Title\nAnswer in at most 5 words.",
        "## When the shop is closed\n### Tools\n- Never call pay_bill.",
        "1. On Sundays:\n   - Never call pay_bill.",
        "**Small requests:** Never call pay_bill.",
    ],
)
def test_rule_that_something_before_or_above_narrows_is_not_concrete(prompt: str) -> None:
    found = kinds(prompt)
    assert not any(concrete for _, concrete in found)
    assert found[-1][0] in {"conditional", "ambiguous"}


@pytest.mark.parametrize(
    "prompt",
    [
        "## Examples\n- Never call pay_bill.\n### More\n- Never call shell.",
        "Examples:\n- Never call pay_bill.",
        "<good-example>\nNever call pay_bill.\n</good-example>",
        "```\nNever call pay_bill.\n```",
        '{\n  "rule": "Never call pay_bill.",\n  "n": 1\n}',
        "{% if x %}",
        "Task: never call pay_bill.",
        '"Never call pay_bill."',
    ],
)
def test_examples_and_code_are_no_rules(prompt: str) -> None:
    assert {kind for kind, _ in kinds(prompt)} <= {"none"}


def test_examples_end_where_their_section_ends() -> None:
    prompt = "## Examples\n- Never call shell.\n## Rules\n- Never call pay_bill.\n"
    assert [rule.rule.items for rule in extract(prompt, TOOLS).rules] == [("pay_bill",)]


def test_description_of_a_tool_is_no_rule_and_an_order_inside_it_is() -> None:
    prompt = (
        "Tools:\n"
        "- `find_page`: Finds a page after the user has paid.\n"
        "- `pay_bill: Pays the bill. before paying a bill first check_user to see who it is\n"
        "- send_mail - Sends a mail. Use this tool to write to people.\n"
    )
    rules = extract(prompt, TOOLS).rules
    assert [(rule.rule.kind, bool(rule.compiled.rules)) for rule in rules] == [("order", True), ("conditional", False)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Do not use functions.", "Never use the API.", "Do not take any action.", "Do not use the tool.",
        "Write at most 5 words.", "Use only one tool.", "Make 4 tool calls per session.", 'Do not include "SELECT".',
        'Always include "LIMIT 100".', "Do not add libraries like Lodash.", "Only admins may call pay_bill.",
        "Always use pay_bill.", "Always call pay_bill when you are bored.",
    ],
)  # fmt: skip
def test_sentence_that_may_mean_less_than_all_calls_or_all_answers_is_not_concrete(sentence: str) -> None:
    assert [concrete for _, concrete in kinds(sentence)] == [False]


def test_pronoun_stands_for_the_tool_only_where_the_sentence_before_was_about_it() -> None:
    assert kinds("pay_bill is dangerous. Never call it.")[-1] == ("forbid_tool", True)
    assert kinds("Open the door with pay_bill. Never call it.")[-1][1] is False
    assert kinds("There are pay_bill and shell. Never call it.")[-1][1] is False


def test_sentences_that_are_glued_or_go_on_small_are_told_apart() -> None:
    texts = [one.sentence.text for one in read_prompt("Call the desk.First, be kind.Never guess. then wait.", TOOLS)]
    assert texts == ["Call the desk.", "First, be kind.", "Never guess.", "then wait."]


def test_deed_in_words_is_counted_by_the_tools_whose_names_have_its_words() -> None:
    (rule,) = extract("Send at most 3 mails per session.", TOOLS).rules
    assert rule.compiled.rules == ({"kind": "max_calls", "params": {"tool": ["send_mail"], "n": 3}},)
    assert not rule.compiled.certain
    assert not extract("Send at most 3 parcels per session.", TOOLS).rules[0].compiled.rules


def test_sentence_that_is_too_long_is_said_to_be_unread() -> None:
    found = extract("Never call pay_bill " + "and so on " * 400 + ".", TOOLS)
    assert (found.rules, len(found.unparsed)) == ((), 1)


def test_deed_is_found_by_what_is_said_about_a_tool() -> None:
    tools: list[dict[str, Any]] = [
        {"name": "rm_it", "description": "Deletes a file. Cannot be undone."},
        {"function": {"name": "ls_it"}},
    ]
    (rule,) = extract("Ask the user before deleting files.", tools).rules
    assert rule.compiled.rules[0]["params"] == {"tool": ["rm_it"]}
    assert not rule.compiled.certain
    assert not extract("Ask the user before deleting accounts.", tools).rules[0].compiled.rules
