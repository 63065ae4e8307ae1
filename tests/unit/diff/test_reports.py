"""Reports say the same in every form, and nothing an agent wrote acts on the reader."""

from __future__ import annotations

import json

import pytest
from junitparser import JUnitXml
from stream_guard_diff import FailOn, diff
from stream_guard_diff.deciding import decide
from stream_guard_diff.report import write_diff

from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.reports import ReportForm
from tests.unit.diff.agents import Plant, edit_calls, refuse, run
from tests.unit.diff.sample import AXES, compared, session, turn

HOSTILE = "<script>alert(1)</script>\u202e`|@team\n::error::gotcha\x1b[31m"
POLICY = """\
rules:
  - id: no-delete
    kind: no_call
    params: {tool: "delete*"}
"""


def written(form: ReportForm) -> str:
    policy = load_policy(POLICY, build_registry(), file="policies/agent.yaml")
    old = session(turn("hello"), turn("done"))
    secret = {HOSTILE: HOSTILE, "password": "hunter2"}
    middle = turn(HOSTILE, ("delete_all", secret), (HOSTILE, secret))
    new = session(turn("hello"), middle, turn("done"))
    found = compared(old, new, policy)
    answer = decide(found.report, fail_on=FailOn.SEVERE)
    return write_diff(found, form, answer, policy=policy, candidate=HOSTILE)


@pytest.mark.parametrize("form", ReportForm)
def test_every_form_tells_of_the_broken_rule_and_keeps_what_is_secret(form: ReportForm) -> None:
    text = written(form)
    assert "no-delete" in text
    assert "trajectory" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("form", [form for form in ReportForm if form is not ReportForm.JSON])
def test_no_form_shows_marks_that_turn_text_round_or_steer_a_terminal(form: ReportForm) -> None:
    text = written(form)
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_markdown_shows_hostile_text_as_code() -> None:
    for line in written(ReportForm.MARKDOWN).splitlines():
        if "<script>" in line:
            outside = "".join(line.split("`")[::2])
            assert "script" not in outside
            assert "@team" not in outside


def test_annotations_are_one_command_a_line() -> None:
    lines = written(ReportForm.GITHUB).splitlines()
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)
    assert "file=policies/agent.yaml,line=2" in lines[0]


def test_sarif_points_at_the_rule() -> None:
    result = json.loads(written(ReportForm.SARIF))["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert result["ruleId"] == "no-delete"
    assert place["artifactLocation"]["uri"] == "policies/agent.yaml"
    assert place["region"]["startLine"] == 2


def test_junit_fails_what_trips_the_gate() -> None:
    document = JUnitXml.fromstring(written(ReportForm.JUNIT).encode())
    failed = {case.name.split(" ")[0] for suite in document for case in suite if case.result}
    assert {"trajectory", "no-delete"} <= failed


def test_html_has_neither_script_nor_address() -> None:
    page = written(ReportForm.HTML)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page


def test_json_holds_the_verdict_and_the_axes() -> None:
    report = json.loads(written(ReportForm.JSON))
    assert report["severity"] == "severe"
    assert report["verdict"].startswith("Must not merge")
    assert {axis["name"] for axis in report["axes"]} == set(build_registry().axes)


def measured(form: ReportForm, plant: Plant = refuse) -> str:
    found = diff(run(1, 30), run(2, 30, plant=plant, share=0.4), axes=AXES)
    return write_diff(found, form, decide(found.report))


@pytest.mark.parametrize("form", ReportForm)
def test_every_form_tells_what_is_more_than_noise(form: ReportForm) -> None:
    assert "declin" in measured(form)


def test_the_comment_on_a_pull_request_draws_the_change_and_says_what_could_have_been_seen() -> None:
    text = measured(ReportForm.MARKDOWN)
    assert "●" in text
    assert "by chance" in text
    assert "What would have been seen" in text
    assert "pairs by their task" in text


def test_a_tool_with_a_hostile_name_is_only_text_in_what_changed() -> None:
    plant = edit_calls(lambda block: block | {"name": HOSTILE})
    page = measured(ReportForm.HTML, plant)
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    for line in measured(ReportForm.MARKDOWN, plant).splitlines():
        outside = "".join(line.split("`")[::2])
        assert "<script" not in outside
        assert "@team" not in outside


def test_a_secret_in_an_argument_is_not_shown_as_what_is_new() -> None:
    plant = edit_calls(lambda block: block | {"input": block["input"] | {"password": "hunter2hunter2"}})
    for form in ReportForm:
        assert "hunter2" not in measured(form, plant)
