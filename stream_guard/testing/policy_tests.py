"""Tests that stand beside rules in a policy: a trace, and where the rule must fire.

    tests:
      - claim: a refund before the confirmation is a hit
        trace: [{call: issue_refund}]
        hits: [0]

``trace`` is in the shorthand of this package. ``hits`` lists positions in it, "deadline" or "end"; none means
that the rule must stay silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from stream_guard.errors import Place
from stream_guard.judge.model import Json
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.testing.running import find

_KEYS = {"claim", "trace", "hits"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one test of one rule."""

    rule_id: str
    claim: str
    place: Place
    problem: str = ""  # why it fails; empty when it holds

    @property
    def holds(self) -> bool:
        """Whether the rule fired exactly where the test says."""
        return not self.problem


def run_policy_tests(policy: Policy) -> Iterator[Outcome]:
    """Run every test of every rule, each rule alone, and yield the results in file order."""
    for spec in policy.rules:
        # The trace of a test is in order, so no event has to wait for an earlier one.
        alone = replace(policy, rules=(spec,), max_out_of_orderness=0.0)
        for number, test in enumerate(spec.tests, 1):
            claim = str(test.get("claim", f"test {number}"))
            place = spec.test_places[number - 1] if spec.test_places else spec.place
            yield Outcome(spec.id, claim, place, _problem(alone, spec, dict(test)))


def _problem(policy: Policy, spec: RuleSpec, test: dict[str, Json]) -> str:
    unknown = sorted(set(test) - _KEYS)
    if unknown:
        return f"unknown key {unknown[0]!r}; a test has claim, trace and hits"
    trace, expected = test.get("trace"), test.get("hits", [])
    if not isinstance(trace, list) or not isinstance(expected, list):
        return "a test needs a list `trace`, and `hits` must be a list"
    try:
        placed = find(policy, trace)
    except (ValueError, TypeError, KeyError) as error:
        return f"the trace cannot be read: {error}"
    fired = [at for at, finding in placed if finding.rule_id == spec.id]
    if fired == expected:
        return ""
    details = "; ".join(f"{at}: {finding.detail}" for at, finding in placed) or "nothing"
    return f"fires at {fired}, wanted {expected} (it said: {details})"
