"""Classes that every policy knows: tools by what they do, and a line of a policy that says otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from stream_guard.errors import PolicyError
from stream_guard.judge.patterns import STANDARD_CLASSES, ToolPattern
from stream_guard.policy.classes import classes_of, why_matched
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()


@pytest.mark.parametrize(
    ("class_name", "names"),
    [
        ("delete", "delete Delete removeFile mcp__disk__wipe_volume table.drop files_deleted trash-message"),
        ("write", "write createIssue UpdateUser calendar.event_add delete_row rebook_flight order_cancel"),
        ("egress", "send GmailSendEmail post_tweet mcp__slack__post_message email.forward share-file upload"),
        ("money", "pay payInvoice send_money BankTransferFunds issue_refund stripe.refund checkout place_order"),
        ("identify", "find_patient_by_name findPatientByDob lookup_customer mcp__crm__get_account verify_identity"),
        ("read", "get_order ListFiles search read fetch-page orders.list"),
    ],
)
def test_a_tool_is_in_a_class_in_whatever_spelling(class_name: str, names: str) -> None:
    pattern = ToolPattern(f"@{class_name}")
    assert [name for name in names.split() if not pattern.matches(name)] == []


@pytest.mark.parametrize(
    ("class_name", "names"),
    [
        ("delete", "get_deleted_items undelete list_trash"),
        ("money", "get_refund_policy refund_status order_status payload_size list_payments send_email"),
        ("write", "get_settings order_details schedule_history writer search_orders"),
        ("egress", "list_mail search_posts get_share_link sender_info email_history"),
        ("identify", "find_bug get_weather search_products"),
        ("read", "delete_list send_query reader"),
    ],
)
def test_what_only_sounds_like_it_is_in_no_class(class_name: str, names: str) -> None:
    pattern = ToolPattern(f"@{class_name}")
    assert [name for name in names.split() if pattern.matches(name)] == []


def load(classes: Mapping[str, Sequence[str]]) -> None:
    policy = {"tool_classes": classes, "rules": [{"id": "r", "kind": "no_call", "params": {"tool": "@delete"}}]}
    load_policy(json.dumps(policy), REGISTRY)


def test_one_line_takes_a_tool_out_adds_one_or_begins_anew() -> None:
    without = ToolPattern("@delete", {"delete": ["!clear_filter"]})
    assert not without.matches("clear_filter")
    assert without.matches("clear_cart")
    more = ToolPattern("@delete", {"delete": ["@delete", "zap"]})
    assert more.matches("zap")
    assert more.matches("delete_row")
    own = ToolPattern("@delete", {"delete": ["zap"]})
    assert own.exact == frozenset(("zap",))
    for classes in ({"delete": ["!clear_filter"]}, {"delete": ["@delete", "zap"]}, {"mine": ["@delete", "@money"]}):
        load(classes)


def test_what_is_taken_out_of_a_class_is_out_of_those_that_hold_it() -> None:
    holding = ToolPattern("@all", {"all": ["@delete", "clear_filter"], "delete": ["!~clear_*"]})
    assert not holding.matches("ClearFilter")
    assert not holding.matches("clear_filter")
    assert holding.matches("erase_row")


def test_a_class_that_only_takes_out_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="only takes tools out"):
        ToolPattern("@mine", {"mine": ["!a"]})
    with pytest.raises(ValueError, match="unknown tool class"):
        ToolPattern("@mine")
    with pytest.raises(PolicyError, match="unknown tool class"):
        load({"mine": ["@nothing"]})


def test_an_explanation_says_which_words_put_a_tool_into_a_class() -> None:
    found = classes_of("mcp__disk__removeFile", {"mine": ["mcp__disk__*"], "listed": ["mcp__disk__removeFile"]})
    assert found["listed"] == "it is listed"
    assert found["mine"] == "its name is mcp__disk__*"
    assert found["delete"] == "it reads remove_file, which is remove_*"
    assert "read" not in found


def test_every_class_is_explained_for_every_tool_in_it() -> None:
    names = ["delete", "SendMoney", "find_patient_x", "createUser", "list_files", "post.tweet"]
    for name in names:
        for one, members in STANDARD_CLASSES.items():
            pattern = ToolPattern(list(members), STANDARD_CLASSES)
            assert bool(why_matched(pattern, name)) == pattern.matches(name) == (one in classes_of(name, {}))
