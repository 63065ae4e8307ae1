"""What a tool's name and arguments say about its class."""

from __future__ import annotations

import pytest

from stream_guard.starting.survey import guess_class, words_of


@pytest.mark.parametrize(
    ("name", "arguments", "guessed"),
    [
        ("Bash", ["command"], "shell"),
        ("run_shell_command", ["command"], "shell"),
        ("run_in_sandbox", ["code"], "shell"),
        ("run_report", ["month"], ""),
        ("execute_query", ["sql"], "read"),
        ("get_payment", ["payment_id"], "read"),
        ("issue_refund", ["order_id", "amount"], "money"),
        ("refund_order", ["order_id"], "money"),
        ("createPayout", [], "money"),
        ("settle", ["amount", "payee"], "money"),
        ("transfer", ["amount"], "money"),
        ("transfer_to_human", ["summary"], "write"),
        ("git_checkout", ["branch"], ""),
        ("sendEmail", ["to"], "egress"),
        ("mcp__mail__send_message", ["to"], "egress"),
        ("mcp__send__get_status", [], "read"),
        ("HTTPPost", ["url"], "egress"),
        ("delete-file", ["path"], "write"),
        ("update_address", [], "write"),
        ("Web-Search", ["query"], "read"),
        ("confirm_refund_amount", ["amount"], ""),
        ("", ["amount"], ""),
        ("東京", [], ""),
    ],
)
def test_the_first_word_that_says_what_is_done_decides(name: str, arguments: list[str], guessed: str) -> None:
    assert guess_class(name, arguments) == guessed


def test_words_are_found_however_a_name_is_written() -> None:
    assert words_of("getHTTPStatus") == words_of("get_http_status") == words_of("Get-Http-Status")


def test_a_description_decides_where_the_name_says_nothing_and_only_there() -> None:
    assert guess_class("x7", described={"egress": "why"}) == "egress"
    assert guess_class("x7", described={"delete": "why", "write": "why"}) == "write"
    assert guess_class("get_x7", described={"egress": "why"}) == "read"
