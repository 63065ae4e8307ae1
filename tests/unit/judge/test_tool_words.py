"""Tools by what they are called in any spelling: the verb of a name counts, and the first one only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.patterns import ToolPattern, readings, tool_words

SPELLINGS = [
    "{0}_{1}",
    "{0}-{1}",
    "{0}.{1}",
    "{a}{b}",
    "Acme{a}{b}",
    "acme_{0}_{1}",
    "mcp__acme__{0}_{1}",
    "mcp_acme_{0}_{1}",
    "acme.{0}_{1}",
    "acme/{0}{b}",
    "MCP:{0}_{1}",
    "@acme/{0}_{1}",
    "{A}_{B}",
]


def spelt(how: str, verb: str, thing: str) -> str:
    return how.format(verb, thing, a=verb.capitalize(), b=thing.capitalize(), A=verb.upper(), B=thing.upper())


@pytest.mark.parametrize("how", SPELLINGS)
@pytest.mark.parametrize(
    ("verb", "thing"), [("send", "email"), ("delete", "file"), ("transfer", "money"), ("post", "tweet")]
)
def test_a_name_reads_the_same_in_every_spelling(how: str, verb: str, thing: str) -> None:
    assert ToolPattern(f"~{verb}_*").matches(spelt(how, verb, thing))
    assert f"{verb}_{thing}" in readings(spelt(how, verb, thing))


@pytest.mark.parametrize("name", ["email.send", "EmailSend", "emails_sent", "email-sending", "mcp__mail__email_send"])
def test_the_thing_may_stand_before_the_verb_and_the_verb_may_be_inflected(name: str) -> None:
    assert ToolPattern("~send_*mail*").matches(name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("~delete_*", "get_delete_log"),
        ("~delete_*", "listDeletedFiles"),
        ("~send_*", "search_sent_mail"),
        ("~refund_*", "confirm_refund_amount"),
        ("~refund_*", "quoteRefund"),
        ("~pay_*", "payload_size"),
        ("~pay_*", "get_pay_slip"),
        ("~edit_*", "Edit"),
        ("~edit_*", "AcmeEdit"),
        ("~update_*", "TaskUpdate"),
        ("~send_*", "resender"),
        ("send_*", "GmailSendEmail"),  # without the sign, a glob is about the name as it is written
    ],
)
def test_what_only_looks_like_it_is_not_meant(pattern: str, name: str) -> None:
    assert not ToolPattern(pattern).matches(name)


@pytest.mark.parametrize("name", ["mcp__search__delete_file", "search.deleteFile", "list-files/delete_file"])
def test_a_verb_in_the_name_of_the_server_hides_nothing(name: str) -> None:
    assert ToolPattern("~delete_*").matches(name)


@pytest.mark.parametrize("name", ["dele\u200bteFile", "\uff44elete.file", "mcp__a__d\u200delete_file"])
def test_a_name_is_read_as_a_reader_sees_it(name: str) -> None:
    assert ToolPattern("~delete_*").matches(name)


def test_alternatives_and_classes_are_read_by_words_too() -> None:
    pattern = ToolPattern("@write", {"write": ["~create_*|update_*", "@more"], "more": ["store"]})
    assert [pattern.matches(name) for name in ("IssueCreate", "updateUser", "store", "Acme.store")] == [
        True,
        True,
        True,
        False,
    ]
    assert pattern.exact is None


@given(st.text(max_size=300))
def test_every_text_can_be_read_and_a_reading_is_bounded(name: str) -> None:
    assert len(tool_words(name)) <= 16
    assert len(readings(name)) <= 80
    assert all(len(reading) <= 250 for reading in readings(name))
