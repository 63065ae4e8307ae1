"""``explain`` and ``sessions``: what people read about an alert, a session and a rule."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.cli.demo import write_samples
from stream_guard.errors import SettingsError
from stream_guard.running.batch import evaluate
from stream_guard.running.front_door import load_policy, read_events


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_samples(tmp_path_factory.mktemp("samples"), 28)


def guard(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def output(*arguments: str | Path) -> str:
    done = guard(*arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def refusal(*arguments: str | Path) -> str:
    done = guard(*arguments)
    assert isinstance(done.exception, SettingsError)
    return str(done.exception)


@pytest.fixture(scope="module")
def alert(samples: tuple[Path, Path]) -> Any:
    found = evaluate(read_events(samples[0]), load_policy(samples[1]))
    return next(finding for finding in found if finding.rule_id == "confirm-before-refund")


def test_an_alert_is_explained_by_its_rule_its_events_and_the_turns_around_it(
    samples: tuple[Path, Path], alert: Any
) -> None:
    events, policy = samples
    shown = output("explain", alert.alert_id[:8], events, "--policy", policy)
    assert alert.alert_id in shown
    assert "@money must not be called until confirm_refund_amount has been." in shown
    assert re.search(r"^> +\d+ \d\d:\d\d:\d\d  call issue_refund\(", shown, flags=re.MULTILINE)
    assert f"[{alert.alert_id}]" in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if str(events.parent) not in line)
    whole = json.loads(output("explain", alert.alert_id, events, "--policy", policy, "--format", "json"))
    assert whole["finding"]["alert_id"] == alert.alert_id
    line = events.read_text().splitlines()[whole["at"]["line"] - 1]
    assert json.loads(line)["session_id"] == alert.session_id
    assert alert.event_id.startswith(json.loads(line)["event_id"])


def test_a_session_shows_what_was_found_and_how_near_the_other_rules_came(
    samples: tuple[Path, Path], alert: Any
) -> None:
    events, policy = samples
    shown = output("explain", alert.session_id, events, "--policy", policy)
    assert "confirm-before-refund" in shown.partition("Not found")[0]
    assert re.search(r"token-budget: [\d,]+ tokens of 12,000", shown)
    assert "never-touch-the-ledger: nothing happened that it looks at" in shown
    one = output("explain", alert.session_id, events, "--policy", policy, "--rule", "token-budget")
    assert "confirm-before-refund" not in one
    assert "token-budget: nothing yet -> total" in one


def test_a_rule_is_told_in_plain_words_with_or_without_recordings(samples: tuple[Path, Path]) -> None:
    events, policy = samples
    words = output("explain", "look-before-paying", "--policy", policy)
    assert "issue_refund must not be called until lookup_order has been." in words
    assert "In 28 sessions" not in words
    surveyed = output("explain", "look-before-paying", events, "--policy", policy)
    assert surveyed.startswith(words)
    assert "In 28 sessions it judged" in surveyed


def test_a_rule_about_a_tool_that_nobody_calls_shows_what_was_called(
    tmp_path: Path, samples: tuple[Path, Path]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n  - {id: typo, kind: no_call, params: {tool: isue_refund}}\n")
    shown = output("explain", "typo", samples[0], "--policy", policy)
    assert re.search(
        r"It saw nothing that it looks at. Tools that were called:[^.]*issue_refund \(\d+\)", shown, re.DOTALL
    )


def test_what_is_not_there_is_refused_with_advice(samples: tuple[Path, Path]) -> None:
    events, policy = samples
    assert 'did you mean "token-budget"?' in refusal("explain", "token-buget", events, "--policy", policy)
    assert 'did you mean "token-budget"?' in refusal("explain", "token-buget", "--policy", policy)
    assert "--policy FILE" in refusal("explain", "abc", events)
    assert "begins 28 sessions" in refusal("explain", "refund-0", events, "--policy", policy)
    assert "no session 'nobody' among 28" in refusal("sessions", "show", "nobody", events)
    assert "read only once" in refusal("sessions", "list", "-")


def test_without_recordings_the_history_is_asked(tmp_path: Path, samples: tuple[Path, Path], alert: Any) -> None:
    history = tmp_path / "history.db"
    ran = guard("run", samples[0], "--policy", samples[1], "--alerts", f"history:{history}")
    assert ran.exit_code == 0, ran.output
    shown = json.loads(output("explain", alert.alert_id[:10], "--history", history))
    assert (shown["session_id"], shown["rule_id"]) == (alert.session_id, alert.rule_id)
    assert json.loads(output("explain", shown["id"], "--history", history)) == shown
    assert "no alert and no session" in refusal("explain", "ffffffff", "--history", history)


def test_sessions_are_listed_and_shown_with_and_without_a_policy(samples: tuple[Path, Path], alert: Any) -> None:
    events, policy = samples
    listed = json.loads(output("sessions", "list", events, "--policy", policy, "--format", "json"))
    assert len(listed) == 28
    mine = next(row for row in listed if row["session_id"] == alert.session_id)
    assert mine["findings"] > 0
    assert mine["worst"]
    bare = output("sessions", "list", events)
    assert "findings" not in bare
    assert all(row["session_id"] in bare for row in listed)
    shown = output("sessions", "show", alert.session_id, events)
    assert shown.count("call ") >= mine["calls"]
    whole = json.loads(output("sessions", "show", alert.session_id, events, "--policy", policy, "--format", "json"))
    assert len([entry for entry in whole["entries"] if entry["kind"] == "tool_call"]) == mine["calls"]


def test_a_tool_is_explained_by_its_classes_the_words_that_put_it_there_and_the_rules_about_it(
    samples: tuple[Path, Path],
) -> None:
    shown = output("explain", "mcp__disk__removeFile", "--tool", "--policy", samples[1])
    assert "@delete: it reads remove_file, which is remove_*" in " ".join(shown.split())
    nothing = output("explain", "frobnicate\x1b[31m", "--tool", "--policy", samples[1])
    assert "\x1b" not in nothing
    data = json.loads(output("explain", "issue_refund", "--tool", "--policy", samples[1], "--format", "json"))
    assert data["classes"]["money"] == "it is listed"
    assert "confirm-before-refund" in data["rules"]


def test_a_tool_that_recordings_describe_is_proposed_for_the_classes_it_is_not_in(tmp_path: Path) -> None:
    tools = [{"name": "x7", "description": "Sends a postcard."}]
    traces, policy = tmp_path / "traces.jsonl", tmp_path / "policy.yaml"
    traces.write_text(
        json.dumps({"kind": "turn", "session_id": "s", "event_id": "1", "request": {"tools": tools}, "response": {}})
    )
    policy.write_text("{rules: [{id: r, kind: no_call, params: {tool: '@egress'}}]}")
    said = " ".join(output("explain", "x7", traces, "--tool", "--policy", policy).split())
    assert "@egress, if the policy lists it under tool_classes: its description reads send_postcard" in said
    policy.write_text("{tool_classes: {egress: x7}, rules: [{id: r, kind: no_call, params: {tool: '@egress'}}]}")
    data = json.loads(output("explain", "x7", traces, "--tool", "--policy", policy, "--format", "json"))
    assert (data["proposed"], data["rules"]) == ({}, ["r"])
