"""Measures of plugins: found by name when a policy is loaded, and kept between 0 and 1."""

from __future__ import annotations

import math

import pytest

import stream_guard as sg
from stream_guard.errors import PolicyError
from stream_guard.judge.counts import Counts
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from stream_guard.running.batch import evaluate
from stream_guard.similarity import Measure, Similarity
from stream_guard.testing.shorthand import events


def installed(**measures: Similarity) -> Registry:
    class Bringer:
        @sg.hookimpl
        def stream_guard_similarities(self) -> dict[str, Similarity]:
            return measures

    return build_registry(extra=[Bringer()])


def policy(name: str) -> str:
    return f"rules: [{{id: a, kind: must_be_similar, params: {{text: same, measure: {name}}}}}]"


def same_length(first: str, second: str) -> float:
    return float(len(first) == len(second))


def test_a_rule_uses_the_measure_it_names() -> None:
    rules = load_policy(policy("length"), installed(length=same_length))
    found = evaluate(events([{"turn": "four"}, {"turn": "longer"}]), rules)
    assert [finding.event_id for finding in found] == ["s-1"]


def test_a_name_that_no_plugin_brings_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(PolicyError, match="known: length"):
        load_policy(policy("lenght"), installed(length=same_length))
    with pytest.raises(PolicyError, match="none, no plugin brings one"):
        load_policy(policy("length"), build_registry())


@pytest.mark.parametrize(("given", "kept"), [(1.0000001, 1.0), (-0.2, 0.0), (1, 1.0), (0.5, 0.5)])
def test_a_measure_is_kept_between_0_and_1(given: float, kept: float) -> None:
    assert Measure("m", lambda _first, _second: given)("a", "b") == kept


def test_a_measure_that_gives_no_number_is_an_error_of_the_rule_and_never_a_pass() -> None:
    counts = Counts()
    rules = load_policy(policy("broken"), installed(broken=lambda _first, _second: math.nan))
    evaluate(events([{"turn": "a"}]), rules, counts=counts)
    assert counts.rule_errors == {0: 1}
