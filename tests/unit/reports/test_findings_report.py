"""Reports of a check: a summary by rule, findings by session, and nothing of an agent's text that acts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Finding, Severity
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.reports.findings import FindingReport, to_github, to_html, to_junit, to_markdown, to_sarif

POLICY = """
rules:
  - { id: no-drop, kind: no_call, params: { tool: drop_table }, severity: critical, reason: Never. }
  - { id: quiet, kind: no_call, params: { tool: rm }, mode: shadow, severity: warning }
  - { id: never, kind: max_turns, params: { n: 9 }, severity: info }
"""
HOSTILE = "s`|<script>alert(1)</script>\n::error::x\u202e"


def found(rule: str, session: str, **more: Any) -> Finding:
    fields: dict[str, Any] = {
        "alert_id": f"{rule}-{session}",
        "slot": rule,
        "kind": "no_call",
        "severity": Severity.CRITICAL,
        "event_id": "e",
        "index": 2,
        "time": 1.0,
        "detail": "drop_table was called",
    }
    return Finding(rule_id=rule, session_id=session, **fields | more)


@pytest.fixture(scope="module")
def report() -> FindingReport:
    policy = load_policy(POLICY, build_registry(), file="policy.yaml")
    counts = Counts()
    counts.unevaluable[2] += 3
    return FindingReport(
        policy,
        [
            found("no-drop", "a", file="traces/a.jsonl", line=7),
            found("quiet", "a", shadow=True),
            found("no-drop", HOSTILE),
            found("no-drop", "a", alert_id="again"),
        ],
        counts,
    )


def test_rules_are_summed_up_and_shadow_findings_are_shown_as_such(report: FindingReport) -> None:
    rows = {rule.rule_id: rule[3:] for rule in report.rules}
    assert rows == {"no-drop": (3, 2, 0, 0), "quiet": (0, 1, 1, 0), "never": (0, 0, 0, 3)}
    assert report.sentence() == "3 findings (1 more in shadow mode) in 2 sessions, 0 events"
    assert {session: len(alerts) for session, alerts in report.by_session().items()} == {"a": 2, HOSTILE: 1}


def test_markdown_has_the_rules_then_each_session_and_nothing_that_acts(report: FindingReport) -> None:
    text = to_markdown(report)
    assert "| `no-drop` | critical | 3 | 2 | 0 | 0 |" in text
    assert text.index("### `a`") < text.index("<script>")
    assert "`traces/a.jsonl:7`" in text
    assert "\n::error" not in text
    assert all(line.count("`") % 2 == 0 for line in text.splitlines())


def test_sarif_points_at_the_event_or_else_at_the_rule(report: FindingReport) -> None:
    run = json.loads(to_sarif(report))["runs"][0]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == ["traces/a.jsonl", "policy.yaml", "policy.yaml"]
    assert [place["region"]["startLine"] for place in places] == [7, 3, 3]
    assert run["results"][0]["partialFingerprints"] == {"alertId/v1": "no-drop-a"}


def test_junit_has_a_suite_for_each_rule_and_a_failure_for_each_session(report: FindingReport) -> None:
    suites = {suite.get("name"): suite for suite in ET.fromstring(to_junit(report))}  # our own
    assert [len(suites[name].findall("*/failure")) for name in ("no-drop", "quiet", "never")] == [2, 0, 0]
    assert suites["never"].find("*/skipped") is not None
    assert suites["quiet"].find("*/skipped") is None


def test_every_line_for_github_is_a_command_of_ours(report: FindingReport) -> None:
    lines = to_github(report).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::error", "::notice"]
    assert "file=traces/a.jsonl,line=7," in lines[0]


def test_a_page_shows_text_of_agents_as_text(report: FindingReport) -> None:
    page = to_html(report)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    assert "traces/a.jsonl:7" in page


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("checked")
    (folder / "policy.yaml").write_text(POLICY)
    events = [
        {"kind": "tool_call", "session_id": f"session-{n % 2}", "event_id": f"e{n}", "tool": "drop_table", "args": {}}
        for n in range(4)
    ]
    (folder / "trace.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder / "trace.jsonl", folder / "policy.yaml"


def check(checked: tuple[Path, Path], form: str) -> Result:
    return CliRunner().invoke(app, ["check", str(checked[0]), "--policy", str(checked[1]), "--format", form])


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "markdown", "sarif", "junit", "github", "html"])
def test_check_prints_every_form_with_every_session_and_leaves_with_1(checked: tuple[Path, Path], form: str) -> None:
    done = check(checked, form)
    assert done.exit_code == 1, done.output
    assert all(session in done.stdout for session in ("session-0", "session-1"))
    assert "no-drop" in done.stdout


def test_alerts_of_a_check_name_the_file_and_the_line(
    checked: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = json.loads(check(checked, "json").stdout)
    assert [(row["file"], row["line"]) for row in rows] == [(str(checked[0]), n) for n in (1, 2, 3, 4)]
    monkeypatch.chdir(checked[0].parent)
    assert {row["file"] for row in json.loads(check(checked, "json").stdout)} == {"trace.jsonl"}


def test_a_table_is_followed_by_a_line_for_each_rule_on_standard_error(checked: tuple[Path, Path]) -> None:
    done = check(checked, "table")
    assert [line.split()[:4] for line in done.stderr.splitlines() if line.startswith(("no-drop", "never"))] == [
        ["no-drop", "critical", "4", "2"],
        ["never", "info", "0", "0"],
    ]
