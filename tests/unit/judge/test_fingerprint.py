"""A rule's states are those of its meaning: members of classes and files of schemas are part of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stream_guard as sg
from stream_guard.judge.bound import fingerprint

ORDER = """
tool_classes: {{ask: ["@inner"], inner: [{tools}], other: [{others}]}}
rules:
  - {{id: r, kind: must_call_before, params: {{first: "@ask", second: refund}}, severity: critical}}
"""


def order(tools: str, others: str = "x") -> sg.Policy:
    return sg.parse_policy(ORDER.format(tools=tools, others=others))


def test_members_of_a_class_inside_a_class_change_the_tag_and_those_of_others_do_not() -> None:
    wide, narrow = order("confirm, ping"), order("confirm")
    assert fingerprint(wide.rules[0]) != fingerprint(narrow.rules[0])
    assert fingerprint(order("confirm", "y").rules[0]) == fingerprint(narrow.rules[0])


def test_a_class_that_is_mended_forgets_what_it_took_for_fulfilled() -> None:
    judge = sg.Judge(order("confirm, ping"), mode="stream")
    judge.feed(sg.ToolCall(session_id="s", time=1.0, tool="ping"))
    judge.use(order("confirm"))
    found = judge.feed(sg.ToolCall(session_id="s", time=2.0, tool="refund")).findings
    assert [finding.rule_id for finding in found] == ["r"]
    assert judge.counts.state_resets == 1


AGENTS = """
agents: {{boss: {{}}, helper: {{{helper}}}, other: {{{other}}}}}
rules: [{{id: r, kind: must_call_before, params: {{first: confirm, second: refund}}, agent: boss}}]
"""


@pytest.mark.parametrize("helper", ["", "parent: other", "parent: boss, operations: [look]"])
def test_an_agent_that_a_rule_applies_to_no_longer_fulfils_nothing_for_it(helper: str) -> None:
    judge = sg.Judge(sg.parse_policy(AGENTS.format(helper="parent: boss", other="")), mode="stream")
    judge.feed(sg.ToolCall(session_id="s", time=1.0, tool="confirm", agent="helper"))
    judge.use(sg.parse_policy(AGENTS.format(helper=helper, other="")))
    assert judge.feed(sg.ToolCall(session_id="s", time=2.0, tool="refund", agent="boss")).findings
    assert judge.counts.state_resets == 1


def test_an_agent_that_a_rule_does_not_apply_to_changes_no_tag() -> None:
    one, two = (sg.parse_policy(AGENTS.format(helper="", other=other)) for other in ("", "operations: [look]"))
    assert fingerprint(one.rules[0]) == fingerprint(two.rules[0])


def test_what_stands_in_a_schema_file_changes_the_tag_and_the_version(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("rules: [{id: r, kind: must_match_json_schema, params: {schema_path: s.json}}]")
    loaded: list[sg.Policy] = []
    for kind in ("object", "array", "object"):
        (tmp_path / "s.json").write_text(json.dumps({"type": kind}))
        loaded.append(sg.load_policy(tmp_path / "p.yaml"))
    first, second, again = loaded
    assert (first.version, fingerprint(first.rules[0])) == (again.version, fingerprint(again.rules[0]))
    assert first.version != second.version
    assert fingerprint(first.rules[0]) != fingerprint(second.rules[0])
