"""A policy to review has every sentence, and what a person decided about one holds for the next version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stream_guard_compliance import extract
from stream_guard_compliance.extraction import fires
from stream_guard_compliance.review import changes_between, examples_of, read_review, write_review

from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

TOOLS = ["delete_order", "verify_identity", "issue_refund", "list_orders", "send_note"]
PROMPT = """You are the agent of a shop. Be friendly.

- Never call delete_order.
- Call verify_identity before calling issue_refund.
- Refunds must never exceed $100.
- Ask the customer for confirmation before sending a note.
- Keep answers under 100 words.
- You may call list_orders.
"""
OWN = Path(__file__).parents[2] / "golden" / "compliance_prompt.md"
OWN_TOOLS = ["wipe_disk", "check_user", "pay_bill", "send_mail", "read_page", "search_docs"]


def reviewed(prompt: str = PROMPT) -> str:
    return write_review(extract(prompt, TOOLS), TOOLS)


def again(prompt: str, text: str) -> str:
    return write_review(extract(prompt, TOOLS), TOOLS, read_review(text))


def test_every_sentence_stands_in_the_file_in_order_and_the_file_is_a_policy() -> None:
    text = reviewed()
    sorts = [line.strip("# ").partition(":")[0] for line in text.splitlines() if line.startswith("  # ")]
    said = [sort for sort in sorts if sort in {"rule", "question", "not a rule"}]
    assert said == ["not a rule", "question", "rule", "rule", "rule", "rule", "rule", "not a rule"]
    assert len(load_policy(text, build_registry(), file="p.yaml").rules) == 5


@pytest.mark.parametrize("prompt", [PROMPT, OWN.read_text(encoding="utf-8")], ids=["shop", "every sort"])
def test_rule_fires_in_the_example_that_breaks_it_and_not_in_the_one_that_keeps_it(prompt: str) -> None:
    tools = TOOLS if prompt == PROMPT else OWN_TOOLS
    rules = [rule for rule in extract(prompt, tools).rules if rule.compiled.rules]
    pairs = [(rule, examples_of(rule, tools)) for rule in rules]
    assert sum(pair is not None for _, pair in pairs) >= 0.8 * len(pairs)
    for rule, pair in pairs:
        if pair is not None:
            assert fires(rule.compiled.rules, pair[0])
            assert not fires(rule.compiled.rules, pair[1])


def test_rule_that_was_edited_stays_as_it_was_edited() -> None:
    edited = reviewed().replace("tool: [delete_order]", "tool: [delete_order, purge_order]").replace("mode: shadow", "")
    text = again(PROMPT + "- Never call list_orders twice in a row.\n", edited)
    assert "tool: [delete_order, purge_order]" in text
    assert "mode: shadow" not in text


def test_rule_that_was_taken_out_stays_out() -> None:
    text = reviewed()
    start = text.index("  - id: limit-words-100")
    end = text.index('  # not a rule: "You may')
    taken_out = again(PROMPT, text[:start] + text[end:])
    assert "limit-words-100" not in taken_out
    assert "taken out in a review" in taken_out
    assert again(PROMPT, taken_out) == taken_out


def test_changes_name_what_is_new_gone_and_changed() -> None:
    later = PROMPT.replace("under 100 words", "under 80 words").replace("- Never call delete_order.\n", "")
    later += "- Send at most 3 notes.\n"
    changes = changes_between(read_review(reviewed()), extract(later, TOOLS))
    assert changes.changed == [("Keep answers under 100 words.", "Keep answers under 80 words.")]
    assert (changes.new, changes.gone) == (["Send at most 3 notes."], ["Never call delete_order."])


def test_new_rule_takes_no_id_of_a_reviewed_one() -> None:
    edited = reviewed().replace("id: forbid-tool-delete-order", "id: forbid-tool-list-orders")
    text = again(PROMPT + "- Never call list_orders.\n", edited)
    ids = [rule.id for rule in load_policy(text, build_registry(), file="p.yaml").rules]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\u2029", "\x0b", "\ufeff", '"', "\\", "\\\\"])
def test_sentence_ends_no_comment(mark: str) -> None:
    prompt = f"Be kind{mark}  - id: planted{mark}. Never call delete_order."
    text = write_review(extract(prompt, TOOLS), TOOLS)
    assert [rule.id for rule in load_policy(text, build_registry(), file="p.yaml").rules] == [
        "forbid-tool-delete-order"
    ]
    assert all(json.dumps(known) for known in read_review(text).sentences)
