"""Mistakes that are planted side by side are all found in one run, each at its own line and column."""

from __future__ import annotations

import pytest

from stream_guard.errors import PolicyError
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry

EIGHT = """\
name: refunds
sessionz: {idle: 30m}
rules:
  - id: confirm
    kind: must_call_befor
    params: {first: confirm, second: refund}
  - id: order
    kind: must_call_before
    params:
      first: confirm
      secondd: refund
  - id: budget
    kind: max_total_tokens
    params: {n: "4000"}
  - id: large
    kind: no_call
    params: {tool: refund}
    when:
      - {path: tool.args.amount, op: ">", value: 500}
      - any_of:
          - {path: labels.tier, op: "=>", value: 3}
          - {path: tool.arguments.amount, op: "==", value: 1}
    severity: errorz
  - id: order
    kind: no_call
    params: {tool: drop}
"""


def test_eight_mistakes_are_listed_in_file_order_with_line_column_and_advice(registry: Registry) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(EIGHT, registry, file="policy.yaml")
    found = [(p.place.line, p.place.column, p.code, p.rule_id) for p in caught.value.problems]
    assert found == [
        (2, 1, "SG104", ""),
        (5, 11, "SG108", "confirm"),
        (11, 7, "SG104", "order"),
        (14, 17, "SG106", "budget"),
        (21, 37, "SG111", "large"),
        (22, 20, "SG112", "large"),
        (23, 15, "SG107", "large"),
        (24, 9, "SG109", ""),
    ]
    text = str(caught.value)
    for advice in ('"sessions"', '"must_call_before"', '"second"', '">="', "tool.args", '"error"', "line 7"):
        assert advice in text


def test_a_problem_reads_as_place_rule_message_and_code(registry: Registry) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy("rules: [{id: a, kind: must_call_before, params: {first: x, secondd: y}}]", registry, file="p.yaml")
    assert str(caught.value) == (
        'p.yaml:1:60: rule "a": unknown key "secondd" for must_call_before; did you mean "second"? [SG104]'
    )


NESTED = """\
rules:
  - id: followup
    kind: must_followup
    params:
      trigger:
        - {path: response.stop_reason, opp: "==", value: tool_use}
        - not:
            any_of:
              - {path: requestx.model, op: "==", value: x}
              - {path: request.model, op: matches, value: "(?=x)"}
      must: {kind: tool_cal, tool_name: confirm}
      within_turns: 0
"""


def test_mistakes_inside_parameters_are_found_however_deep(registry: Registry) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(NESTED, registry)
    found = [(p.place.line, p.place.column, p.code) for p in caught.value.problems]
    assert found == [(6, 40, "SG104"), (9, 24, "SG112"), (10, 59, "SG114"), (11, 20, "SG107"), (12, 21, "SG107")]


JSON = """\
{
\t"rules": [
\t\t{"id": "a", "kind": "max_turns", "params": {"limit": 0.5}},
\t\t{"id": "b", "kind": "no_call", "params": {"tool": "x"}, "unless": []}
\t]
}
"""


def test_json_files_get_places_too(registry: Registry) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(JSON, registry, file="p.json")
    assert [(p.place.line, p.place.column, p.code) for p in caught.value.problems] == [
        (3, 56, "SG106"),
        (4, 69, "SG113"),
    ]


def test_a_value_that_could_not_be_read_is_reported_once(registry: Registry) -> None:
    lost = ("{id: a, kind: max_turns, params: {n: .nan}}", "{id: b, kind: max_turns, params: {n: 1}, cooldown: *x}")
    wrong = "{id: c, kind: no_call, params: {tool: x}, then: 5}"
    with pytest.raises(PolicyError) as caught:
        load_policy("rules:\n" + "".join(f"  - {rule}\n" for rule in (*lost, wrong)), registry)
    assert [(p.place.line, p.code) for p in caught.value.problems] == [(2, "SG119"), (3, "SG121"), (4, "SG107")]
