"""A session that is told by its calls alone: responses that are never told are not missing, and rules say so."""

from __future__ import annotations

from typing import Any

import pytest

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.registry import build_registry
from stream_guard.testing import events, one_rule_policy

KINDS = build_registry().kinds
YES = {"user": "Yes, do it.", "at": 10}
DONE = [{"call": "look", "id": "a", "at": 0}, {"result": "look", "id": "a", "at": 1}]
RUNS = {"call": "delete", "at": 11}
ANSWER = {"turn": "Shall I?", "at": 5}


def judged(kind: str, params: dict[str, Any], trace: list[dict[str, Any]]) -> tuple[int, bool]:
    """Return how many findings there are, and whether an event could not be judged."""
    counts, found = Counts(), list[Finding]()
    table = Judge(one_rule_policy(KINDS[kind], params), counts=counts)
    for event in events(trace):
        found += table.feed(event).findings
    found += table.end()
    return len(found), bool(counts.total("unevaluable"))


@pytest.mark.parametrize(
    ("kind", "params", "trace", "expected"),
    [
        ("must_confirm_before", {"tool": "delete"}, [*DONE, YES, RUNS], (0, True)),
        ("must_confirm_before", {"tool": "delete"}, [*DONE, YES, RUNS, RUNS], (1, True)),
        ("must_confirm_before", {"tool": "delete"}, [*DONE, {"user": "No."}, RUNS], (1, True)),
        ("must_confirm_before", {"tool": "delete"}, [ANSWER, *DONE, YES, RUNS], (0, False)),
        ("must_confirm_before", {"tool": "delete"}, [{"turn": None, "at": 5}, *DONE, YES, RUNS], (1, False)),
        ("must_complete", {}, [{"user": "Go."}, *DONE, {"end": "closed"}], (0, True)),
        ("must_complete", {}, [ANSWER, *DONE, YES, {"end": "closed"}], (1, False)),
        ("must_complete", {}, [{"user": "Go."}, {"end": "closed"}], (1, False)),
        ("must_not_stall", {"within_seconds": 60}, [*DONE, {"user": "Still there?", "at": 500}], (0, True)),
        ("must_not_stall", {"within_seconds": 60}, [*DONE, RUNS, {"user": "Still there?", "at": 500}], (1, True)),
        ("must_not_stall", {"within_seconds": 60}, [ANSWER, YES, {"user": "Still there?", "at": 500}], (2, False)),
        (
            "arg_provenance",
            {"tool": "pay", "path": "to", "allow": {"system": True}},
            [{"call": "pay", "args": {"to": "AB1234"}}],
            (0, True),
        ),
        (
            "arg_provenance",
            {"tool": "pay", "path": "to", "allow": {"system": True}},
            [ANSWER, {"call": "pay", "args": {"to": "AB1234"}}],
            (1, False),
        ),
    ],
)
def test_what_was_never_told_is_not_missing(
    kind: str, params: dict[str, Any], trace: list[dict[str, Any]], expected: tuple[int, bool]
) -> None:
    assert judged(kind, params, trace) == expected
