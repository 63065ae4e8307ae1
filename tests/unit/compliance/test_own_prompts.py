"""What is found in prompts that the reader was, and was not, written with."""

from __future__ import annotations

import pytest
from stream_guard_compliance.trace import read_trace

from stream_guard import evaluate
from tests.unit.compliance.own_prompts import (
    HELD,
    LATER,
    PROPOSALS,
    STRANGERS,
    cases,
    measure,
    read_prompt,
    text_and_tools,
)
from tests.vectors.behaviour import is_accepted, proposed_in

ROWS = cases()
NAMES = sorted({row["prompt"] for row in ROWS})
MENDED = cases(STRANGERS / "mended.jsonl")
UNSEEN = cases(STRANGERS / "unseen.jsonl")
# Without a mark of exclamation: one prompt forbids them.
GREETING = [{"type": "user_message", "content": "hi"}, {"type": "agent_message", "content": "Hello."}]


def test_most_that_a_trace_breaks_is_reported_for_its_sentence_also_in_prompts_that_were_held_away() -> None:
    seen = measure([row for row in ROWS if row["prompt"] not in HELD | LATER])
    held = measure([row for row in ROWS if row["prompt"] in HELD])
    later = measure([row for row in ROWS if row["prompt"] in LATER])
    assert seen.recall >= 0.75, seen.missed
    assert held.recall >= 0.5, held.missed
    assert later.recall >= 0.75, later.missed


def test_what_keeps_a_prompt_is_reported_in_at_most_three_of_a_hundred_traces_and_no_trap_is() -> None:
    found = measure(ROWS)
    assert len(found.accused) <= 0.03 * found.keeps, found.accused
    assert not measure([row for row in ROWS if row.get("trap")]).accused


def test_with_proposals_seventeen_of_twenty_are_found_and_nobody_is_accused() -> None:
    found = measure(ROWS, proposed=True)
    assert found.recall >= 0.85, found.missed
    assert len(found.accused) <= 0.03 * found.keeps, found.accused
    assert not measure([row for row in ROWS if row.get("trap")], proposed=True).accused


def test_most_is_reported_of_prompts_of_strangers() -> None:
    mended, unseen = measure(MENDED), measure(UNSEEN)
    assert mended.recall >= 0.85, mended.missed
    assert unseen.recall >= 0.65, unseen.missed


def test_no_keeping_trace_and_no_trap_of_a_stranger_is_reported() -> None:
    assert measure([*MENDED, *UNSEEN]).accused == []


PROPOSED = [row for row in proposed_in(PROPOSALS) if row[0] in NAMES]


def test_no_wrong_proposal_is_accepted_and_no_right_one_is_refused() -> None:
    assert sum(bool(wrong) for _, _, wrong in PROPOSED) >= len(PROPOSED) / 3
    for name, proposal, wrong in PROPOSED:
        assert is_accepted(proposal, *text_and_tools(name)) is not bool(wrong), (proposal.quote, wrong)


GREETED = sorted({row["prompt"] for row in (*MENDED, *UNSEEN)})


@pytest.mark.parametrize("name", [*NAMES, *GREETED])
def test_greeting_breaks_no_sentence(name: str) -> None:
    _, _, policy = read_prompt(name)
    assert policy is not None
    assert not [*evaluate(read_trace(GREETING).events, policy)]
