"""JSON holds whole numbers that no float and no machine word does, and no rule stumbles over one."""

from __future__ import annotations

from typing import Any, Final

import pytest

from stream_guard import Json
from stream_guard.judge.counts import Counts
from stream_guard.registry import build_registry
from stream_guard.testing import find, one_rule_policy

HUGE: Final = 10**400
KINDS: Final = build_registry().kinds
TOKENS: Final = {"*": {"input": 3, "output": 15}}


@pytest.mark.parametrize(
    ("kind", "params", "item"),
    [
        ("max_aggregate", {"measure": "sum", "path": "tool.args.n", "over": 5}, {"call": "a", "args": {"n": HUGE}}),
        ("max_cost", {"usd": 1}, {"turn": "a", "usage": {"cost_usd": HUGE}}),
        ("max_cost", {"usd": 1, "prices": TOKENS}, {"turn": "a", "usage": {"input_tokens": HUGE, "output_tokens": 1}}),
        ("max_total_tokens", {"n": 1}, {"turn": "a", "usage": {"input_tokens": HUGE, "output_tokens": 1}}),
        ("max_latency", {"max_ms": 1}, {"turn": "a", "response": {"latency_ms": HUGE}}),
    ],
)
def test_a_huge_number_is_over_any_limit(kind: str, params: dict[str, Json], item: dict[str, Json]) -> None:
    counts = Counts()
    assert [at for at, _ in find(one_rule_policy(KINDS[kind], params), [item], counts=counts)] == [0]
    assert counts.total("rule_errors") == 0


@pytest.mark.parametrize(("moment", "hits"), [(HUGE, []), (-HUGE, [0])])
def test_a_huge_moment_is_older_or_not(moment: int, hits: list[int]) -> None:
    gate: Any = [{"path": "tool.args.n", "op": "older_than", "value": "1h"}]
    policy = one_rule_policy(KINDS["no_call"], {"tool": "a"}, when=gate)
    assert [at for at, _ in find(policy, [{"call": "a", "args": {"n": moment}, "at": 5}])] == hits


def test_an_event_with_a_huge_number_waits_for_its_prompt() -> None:
    counts = Counts()
    trace = [
        {"call": "wipe_disk", "args": {"n": HUGE}},
        {"turn": "Hello!", "request": {"system": "Never call wipe_disk. Be kind."}},
    ]
    assert len(find(one_rule_policy(KINDS["must_keep_prompt"], {}), trace, counts=counts)) == 1
    assert counts.total("rule_errors") == 0


@pytest.mark.parametrize("odd", [10**5000, "\ud800"], ids=["number", "text"])
def test_an_event_that_json_cannot_write_is_lost_before_its_prompt_and_the_rule_says_so(odd: Json) -> None:
    counts = Counts()
    prompt: dict[str, Json] = {"turn": "Hello!", "request": {"system": "Never call wipe_disk. Be kind."}}
    trace: list[dict[str, Json]] = [
        {"call": "wipe_disk", "args": {"n": odd}},
        prompt,
        {"call": "look"},
        {"call": "wipe_disk"},
    ]
    found = find(one_rule_policy(KINDS["must_keep_prompt"], {}), trace, counts=counts)
    assert [at for at, _ in found] == [3]
    assert counts.total("rule_errors") == 0
    assert counts.total("unevaluable") == 3
