"""A flakestorm.yaml is read as it is, and every mistake in it is reported at its place."""

from __future__ import annotations

import re

import pytest
from stream_guard_contract.document import Contract, load_contract
from stream_guard_contract.scoring.score import score

from stream_guard.errors import PolicyError
from tests.contract_pack.answers import answered, contract, registry

HEAD = """\
version: "2.0"
contract:
  name: Finance Agent Contract
  description: Invariants that must hold under all failure conditions
  invariants:
    - id: always-cite-source
      type: regex
      pattern: "(?i)(source|according to|reference)"
      severity: critical
      when: always
      description: Must always cite a data source
    - id: never-fabricate-when-tools-fail
      type: regex
      pattern: '\\$[\\d,]+\\.\\d{2}'
      negate: true
      severity: critical
      when: tool_faults_active
      description: Must not return dollar figures when tools are failing
    - id: max-latency
      type: latency
      max_ms: 60000
      severity: medium
      when: always
"""
STORM = """\
chaos_matrix:
  - name: no-chaos
    tool_faults: []
    llm_faults: []
  - name: search-tool-down
    tool_faults:
      - tool: market_data_api
        mode: error
        error_code: 503
  - name: llm-degraded
    llm_faults:
      - mode: truncated_response
        max_tokens: 20
"""
INSIDE = HEAD + re.sub("(?m)^", "  ", STORM).rstrip() + "\n"
OUTSIDE = HEAD + STORM


def load(text: str) -> Contract:
    return load_contract(text, registry(), file="flakestorm.yaml")


def refused(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(text)
    return [str(problem) for problem in caught.value.problems]


def test_the_example_of_the_seed_gives_the_same_matrix_with_its_indentation_repaired_either_way() -> None:
    fabricating = [
        answered("According to the filing, revenue was $1,234.56.", name)
        for name in ("no-chaos", "search-tool-down", "llm-degraded")
    ]
    events = [event for session in fabricating for event in session]
    inside, outside = (score(load(text), events, registry()) for text in (INSIDE, OUTSIDE))
    assert inside == outside
    assert [(cell.scenario, cell.state.value) for cell in inside.cells] == [
        ("no-chaos", "pass"),
        ("no-chaos", "not_applicable"),
        ("no-chaos", "pass"),
        ("search-tool-down", "pass"),
        ("search-tool-down", "fail"),
        ("search-tool-down", "pass"),
        ("llm-degraded", "pass"),
        ("llm-degraded", "not_applicable"),
        ("llm-degraded", "pass"),
    ]
    assert (inside.score, inside.passed) == (80.0, False)


def test_a_pattern_with_doubled_backslashes_is_warned_of_with_what_to_write() -> None:
    (warning,) = load(HEAD.replace("'\\$[\\d,]+\\.\\d{2}'", "'\\\\$[\\\\d,]+\\\\.\\\\d{2}'") + STORM).warnings
    assert (warning.place.line, warning.place.column) == (14, 16)
    assert r"'\$[\d,]+\.\d{2}'" in warning.message


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("type: latency", "type: latencie", "20:13", 'unknown type "latencie"; did you mean "latency"?'),
        ("type: latency", "type: zzz", "20:13", 'unknown type "zzz"; it takes "contains"'),
        ("severity: medium", "severity: blocker", "22:17", 'not "blocker"'),
        ("when: tool_faults_active", "when: tools_faults", "17:13", 'did you mean "tool_faults_active"?'),
        ("id: max-latency", "id: always-cite-source", "19:11", "is taken in line 6"),
        ('"(?i)(source|according to|reference)"', '"(source"', "8:16", "not a usable regular expression: missing )"),
        ('"(?i)(source|according to|reference)"', '"a(?=b)"', "8:16", "look-ahead is not linear"),
        ("max_ms: 60000", "max_ms: 0", "21:15", "greater than 0"),
        ("max_ms: 60000", "max_ms: 1.5", "21:15", "a whole number"),
        ("      max_ms: 60000\n", "", "19:7", 'latency needs "max_ms"'),
        ("max_ms: 60000", "max_ms: 60000\n      negate: true", "22:15", "latency cannot be negated"),
        ("severity: medium", "serverity: medium", "22:7", 'did you mean "severity"?'),
        ("mode: error", "mode: eror", "31:15", 'did you mean "error"?'),
        ("name: llm-degraded", "name: no-chaos", "33:11", "is taken in line 25"),
        ("name: Finance Agent Contract", "name: ''", "3:9", '"name" must not be empty'),
    ],
)
def test_each_mistake_is_refused_with_line_and_column(old: str, new: str, place: str, message: str) -> None:
    assert old in OUTSIDE
    (problem,) = refused(OUTSIDE.replace(old, new, 1))
    assert problem.startswith(f"flakestorm.yaml:{place}: ")
    assert message in problem


def test_all_mistakes_are_reported_at_once_in_file_order() -> None:
    broken = OUTSIDE.replace("severity: critical", "severity: blocker", 1).replace("(?i)(source", "((source", 1)
    broken = broken.replace("type: latency", "type: latencie").replace("mode: error", "mode: eror")
    lines = [int(problem.split(":")[1]) for problem in refused(broken)]
    assert lines == [8, 9, 20, 31]


def test_a_key_that_resembles_none_is_foreign_and_only_warned_of() -> None:
    promise = load(OUTSIDE.replace("when: always\n", "when: always\n      x_owner: finance\n", 1))
    assert ['unknown key "x_owner"' in warning.message for warning in promise.warnings] == [True]


def test_sections_that_a_contract_does_not_need_are_left_alone() -> None:
    whole = (
        OUTSIDE
        + """\
agent:
  endpoint: http://localhost:8000/chat
  type: http
  method: POST
  request_template: '{"message": "{prompt}"}'
  response_path: $.reply
  timeout: 30000
  headers: {Authorization: Bearer $TOKEN}
  reset_endpoint: http://localhost:8000/reset
model: {provider: ollama, name: some-model}
mutations: {count: 5}
golden_prompts: [What was the revenue?]
invariants: [{type: latency, max_ms: 5}]
output: {format: html}
advanced: {concurrency: 5}
scoring: {mutation: 0.2, chaos: 0.35, contract: 0.35, replay: 0.1}
"""
    )
    promise = load(whole)
    assert promise.warnings == ()
    assert promise.golden_prompts == ("What was the revenue?",)
    assert promise.agent is not None
    assert promise.agent.reset_endpoint == "http://localhost:8000/reset"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; it needs `contract:`"),
        ("version: '2.0'\n", "no contract is defined here"),
        ("[]", "not a list"),
        ("contract: 7", "must be a mapping, not 7"),
        ("contract: {name: x, invariants: 7}", '"invariants" must be a list, not 7'),
        ("contract: {name: x, invariants: [7]}", "must be a mapping, not 7"),
        ("contract: {name: x}\nscoring: {mutation: 0.5}", "the weights must add up to 1, not 1.3"),
        ("contract: {name: x}\nagent: {endpoint: x, timeout: 5}", '"timeout" must be at least 1000'),
    ],
)
def test_what_is_no_contract_is_refused(text: str, message: str) -> None:
    (problem,) = refused(text)
    assert message in problem


@pytest.mark.parametrize(
    ("invariant", "message"),
    [
        ({"type": "completes", "when": "llm_faults_active"}, 'no scenario is one for "llm_faults_active"'),
        ({"type": "completes", "when": "any_chaos_active"}, 'no scenario is one for "any_chaos_active"'),
        ({"type": "behavior_unchanged"}, "write `baseline: auto`, or a text"),
    ],
)
def test_what_would_never_be_evaluated_is_warned_of(invariant: dict[str, object], message: str) -> None:
    (warning,) = contract(invariant).warnings
    assert message in warning.message


def test_numbers_in_quotes_are_numbers_as_in_the_original() -> None:
    promise = load(OUTSIDE.replace("max_ms: 60000", 'max_ms: "60000"').replace("error_code: 503", 'error_code: "503"'))
    assert (promise.invariants[2].max_ms, promise.scenarios[1].tool_faults[0].error_code) == (60000, 503)
    (problem,) = refused(OUTSIDE.replace("max_ms: 60000", "max_ms: soon"))
    assert '"max_ms" must be a whole number, not "soon"' in problem


def test_two_matrices_that_differ_are_refused_and_the_same_one_twice_is_one() -> None:
    assert load(INSIDE + STORM).scenarios == load(INSIDE).scenarios
    (problem,) = refused(INSIDE + STORM.replace("503", "500"))
    assert "they differ; keep one of them" in problem


def test_nothing_to_evaluate_is_warned_of() -> None:
    messages = {warning.message for warning in load("contract: {name: x}").warnings}
    assert messages == {
        f"the contract has no {what}, so nothing can be evaluated" for what in ("invariant", "scenario")
    }


@pytest.mark.parametrize(
    ("invariant", "message"),
    [
        ({"type": "must_call_before", "params": {"frist": "a", "second": "b"}}, 'did you mean "first"?'),
        ({"type": "no_call", "params": {"tool": "x"}, "negate": True}, "a rule kind cannot be negated"),
        ({"type": "no_call", "value": "x", "params": {"tool": "x"}}, 'its parameters stand under "params"'),
        ({"type": "contains", "value": "x", "params": {"a": 1}}, '"params" belongs to rule kinds'),
        ({"type": "similarity", "expected": "x", "similarity": "nobody"}, 'no measure is called "nobody"'),
        ({"type": "contains", "value": ""}, '"value" must not be empty'),
        ({"type": "contains_any", "values": []}, '"values" must not be empty'),
        ({"type": "excludes_pattern", "patterns": ["(a"], "regex": True}, "not a usable regular expression"),
        ({"type": "system_prompt_leak_probe", "patterns": ["a"]}, 'needs "probes"'),
        ({"type": "completes", "negate": True}, "completes cannot be negated"),
    ],
)
def test_an_invariant_that_cannot_mean_anything_is_refused(invariant: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        contract(invariant)
    assert message in str(caught.value)


def test_what_is_never_read_and_what_can_never_fail_is_warned_of() -> None:
    promise = contract(
        {"type": "contains", "value": "a", "pattern": "b"},
        {"type": "contains_any", "values": [""]},
        {"type": "excludes_pattern", "patterns": [""]},
        matrix=[{"name": "s", "tool_faults": [{"tool": "a", "mode": "slow", "probability": 0}]}],
    )
    said = [warning.message for warning in promise.warnings]
    assert [len(said), 'does not read "pattern"' in said[0], "always passes" in said[1], "always fails" in said[2]] == [
        4,
        True,
        True,
        True,
    ]
    assert "not exercised" in said[3]
