"""The forms of a matrix: whole, and unable to act on whoever shows them."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from stream_guard_contract.document import Contract
from stream_guard_contract.recording import WATCHED
from stream_guard_contract.report import write_matrix
from stream_guard_contract.scoring.matrix import Matrix

from tests.contract_pack.answers import answered, contract, matrix_of

HOSTILE = "<script>alert(1)</script>\n::error::pwned @everyone \u202e`x` | [l](http://e) \x1b[31m"
DOWN = {"name": "down", "tool_faults": [{"tool": "search", "mode": "error"}]}


def case() -> tuple[Contract, Matrix]:
    promise = contract(
        {"id": "cite", "type": "contains", "value": "source", "severity": "critical"},
        {"id": "calm-only", "type": "completes", "when": "no_chaos", "severity": "low"},
        {"id": "gone", "type": "completes", "probes": ["never asked"]},
        matrix=[{"name": "calm"}, DOWN],
        golden_prompts=["p"],
    )
    watched = {WATCHED: "tool_faults"}
    return promise, matrix_of(promise, answered(HOSTILE), answered("source: x", "down", labels=watched))


@pytest.mark.parametrize("form", ["table", "markdown", "github", "html", "junit", "sarif", "json"])
def test_every_form_names_what_is_broken_and_obeys_nothing_the_agent_wrote(form: str) -> None:
    written = write_matrix(*case(), form)
    assert "cite" in written
    assert "\x1b" not in written
    assert "\u202e" not in written.replace("\\u202e", "")
    assert "\n::error::pwned" not in written
    assert "<script>" not in written or form in ("table", "markdown", "sarif", "json", "github")


def test_html_escapes_and_forbids_scripts() -> None:
    page = write_matrix(*case(), "html")
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    for word in ("fail", "not applicable", "inconclusive", "not exercised", "calm/p answer"):
        assert word in page


def test_junit_has_a_case_for_each_cell_and_skips_what_was_not_evaluated() -> None:
    root = ET.fromstring(write_matrix(*case(), "junit"))
    cases = {(suite.get("name"), one.get("name")): [child.tag for child in one] for suite in root for one in suite}
    assert cases == {
        ("calm", "cite"): ["failure"],
        ("calm", "calm-only"): [],
        ("calm", "gone"): ["skipped"],
        ("down", "cite"): ["skipped"],
        ("down", "calm-only"): ["skipped"],
        ("down", "gone"): ["skipped"],
    }


def test_sarif_points_at_the_line_of_the_invariant() -> None:
    promise, matrix = case()
    (result,) = json.loads(write_matrix(promise, matrix, "sarif"))["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"]) == ("cite", "error")
    assert place["artifactLocation"]["uri"] == "flakestorm.json"
    assert place["region"]["startLine"] == promise.places["cite"].line


def test_github_tells_of_a_scenario_that_was_not_exercised() -> None:
    lines = write_matrix(*case(), "github").splitlines()
    assert lines[0].startswith("::error file=flakestorm.json,line=1,title=cite in calm::")
    assert lines[1].startswith("::warning title=scenario down::not exercised: the agent never met tool_faults/0/error")


def test_json_has_reason_excerpt_and_event_of_every_cell_that_was_judged() -> None:
    data = json.loads(write_matrix(*case(), "json"))
    assert (data["score"], data["passed"], data["critical_failed"]) == (25.0, False, True)
    assert all(cell["reason"] for cell in data["cells"])
    judged = [cell for cell in data["cells"] if cell["state"] in ("pass", "fail", "not_exercised")]
    assert all(cell["event_id"] == "answer" and cell["excerpt"] for cell in judged)
