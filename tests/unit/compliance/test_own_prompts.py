"""What is found in prompts that the reader was, and was not, written with."""

from __future__ import annotations

import pytest
from stream_guard_compliance.trace import read_trace

from stream_guard import evaluate
from tests.unit.compliance.own_prompts import HELD, cases, measure, read_prompt

ROWS = cases()
NAMES = sorted({row["prompt"] for row in ROWS})
GREETING = [{"type": "user_message", "content": "hi"}, {"type": "agent_message", "content": "Hello!"}]


def test_most_that_a_trace_breaks_is_reported_for_its_sentence_also_in_prompts_that_were_held_away() -> None:
    seen = measure([row for row in ROWS if row["prompt"] not in HELD])
    held = measure([row for row in ROWS if row["prompt"] in HELD])
    assert seen.recall >= 0.75, seen.missed
    assert held.recall >= 0.5, held.missed


def test_what_keeps_a_prompt_is_reported_in_at_most_three_of_a_hundred_traces_and_no_trap_is() -> None:
    found = measure(ROWS)
    assert len(found.accused) <= 0.03 * found.keeps, found.accused
    assert not measure([row for row in ROWS if row.get("trap")]).accused


@pytest.mark.parametrize("name", NAMES)
def test_greeting_breaks_no_sentence(name: str) -> None:
    _, _, policy = read_prompt(name)
    assert policy is not None
    assert not [*evaluate(read_trace(GREETING).events, policy)]
