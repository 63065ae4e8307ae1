"""The command line as a user meets it: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from stream_guard.cli.demo import write_samples
from stream_guard.distribution import NAME
from tests import processes

POLICY = """
rules:
  - { id: no-drop, kind: no_call, params: { tool: drop_table }, severity: critical }
  - { id: polite, kind: must_include_text, params: { text: please }, severity: info }
"""


def guard(*arguments: str | Path, stdin: bytes = b"", timeout: float = 120) -> subprocess.CompletedProcess[bytes]:
    return processes.run(*arguments, stdin=stdin, timeout=timeout)


def event(kind: str, **fields: Any) -> bytes:
    header = {"kind": kind, "session_id": "s", "time": 100.0}
    return json.dumps(header | fields).encode() + b"\n"


CLEAN = event(
    "turn", event_id="1", response={"content": [{"type": "text", "text": "please"}], "stop_reason": "end_turn"}
)
DROP = event("tool_call", event_id="2", tool="drop_table", args={})
END = event("session_end", event_id="3")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def test_the_demo_shows_alerts_rules_and_metrics_and_ends_by_itself() -> None:
    done = guard("demo")
    assert done.returncode == 0, done.stderr
    assert b"CRITICAL confirm-before-refund" in done.stdout
    assert re.search(rb"never-touch-the-ledger +no_call +critical +2", done.stdout)
    assert b'stream_guard_events_total{kind="turn"} 307.0' in done.stderr


def test_the_demo_samples_break_exactly_what_their_scripts_say(tmp_path: Path) -> None:
    events, rules = write_samples(tmp_path, 28)
    done = guard("check", events, "--policy", rules, "--format", "json")
    found = {(row["session_id"], row["rule_id"]) for row in json.loads(done.stdout)}
    assert {rule for session, rule in found if session == "refund-00003"} == {
        "confirm-before-refund",
        "confirm-after-quote",
    }
    assert {rule for session, rule in found if session == "refund-00011"} == {"never-touch-the-ledger"}
    assert {session for session, _ in found} <= {f"refund-{number:05d}" for number in range(3, 28, 4)}


def test_run_and_check_raise_the_same_alerts(tmp_path: Path) -> None:
    events, rules = write_samples(tmp_path, 200)
    checked = guard("check", events, "--policy", rules, "--format", "jsonl").stdout.splitlines()
    ran = guard("run", events, "--policy", rules, "--alerts", "jsonl:-", "--no-serve").stdout.splitlines()
    assert len(checked) > 50
    assert {json.loads(line)["alert_id"] for line in ran} == {json.loads(line)["alert_id"] for line in checked}
    assert len(ran) == len(checked)


def test_check_of_a_clean_trace_exits_0(tmp_path: Path, policy: Path) -> None:
    done = guard("check", "-", "--policy", policy, stdin=CLEAN + END)
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize(("gate", "code"), [("info", 1), ("critical", 1), ("none", 0)])
def test_check_of_findings_exits_by_the_gate(policy: Path, gate: str, code: int) -> None:
    done = guard("check", "-", "--policy", policy, "--fail-on", gate, "--format", "jsonl", stdin=CLEAN + DROP + END)
    assert done.returncode == code
    [alert] = [json.loads(line) for line in done.stdout.splitlines()]
    assert (alert["rule_id"], alert["severity"], alert["event_id"]) == ("no-drop", "critical", "2")


def test_check_with_a_bad_policy_exits_2_and_says_where(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("rules:\n  - {id: x, kind: no_cal, params: {tool: a}}\n", encoding="utf-8")
    done = guard("check", "-", "--policy", bad)
    assert done.returncode == 2
    assert f"{bad}:2:19".encode() in done.stderr
    assert b"no_call" in done.stderr


def test_check_of_a_missing_file_exits_3(policy: Path, tmp_path: Path) -> None:
    done = guard("check", tmp_path / "nowhere.jsonl", "--policy", policy)
    assert done.returncode == 3
    assert b"nowhere.jsonl" in done.stderr


def test_check_that_could_not_read_everything_exits_4(policy: Path) -> None:
    broken = guard("check", "-", "--policy", policy, stdin=CLEAN + b"{broken\n" + END)
    assert broken.returncode == 4
    assert b"1 dead letters" in broken.stderr
    accepted = guard("check", "-", "--policy", policy, "--allow-inconclusive", stdin=CLEAN + b"{broken\n" + END)
    assert accepted.returncode == 0


@pytest.mark.parametrize("first", [b"{", b"[", b'{"kind": "tool_call", "x":', b"no JSON"])
def test_a_first_line_that_is_no_json_is_one_dead_letter_and_the_rest_is_judged(
    tmp_path: Path, policy: Path, first: bytes
) -> None:
    events = tmp_path / "events.jsonl"
    calls = [event("tool_call", event_id=str(number), tool="drop_table", args={}) for number in range(2000)]
    events.write_bytes(first + b"\n" + b"".join(calls))
    checked = guard("check", events, "--policy", policy, "--format", "jsonl")
    assert (checked.returncode, len(checked.stdout.splitlines())) == (1, 2000)
    assert b"1 dead letters" in checked.stderr
    ran = guard("run", events, "--policy", policy, "--no-serve", "--alerts", f"jsonl:{tmp_path / 'alerts.jsonl'}")
    assert (ran.returncode, len((tmp_path / "alerts.jsonl").read_bytes().splitlines())) == (0, 2000)
    assert b"1 dead letters" in ran.stderr


@pytest.mark.parametrize("content", [b"", b"\n\n \n", b"{\n", b"no JSON\n{\n"])
def test_an_input_that_gives_nothing_to_judge_is_no_success(tmp_path: Path, policy: Path, content: bytes) -> None:
    events = tmp_path / "events.jsonl"
    events.write_bytes(content)
    for command in (["check", events], ["check", "-"], ["replay", events], ["run", events, "--no-serve"]):
        done = guard(*command, "--policy", policy, stdin=content)
        assert done.returncode == 4, (command, done.stderr)
        assert b"inconclusive: " in done.stderr


def test_a_run_that_goes_on_where_it_stopped_may_find_nothing_new(tmp_path: Path, policy: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_bytes(CLEAN + END)
    words = ("run", events, "--policy", policy, "--no-serve", "--checkpoint", tmp_path / "progress.db")
    assert [guard(*words).returncode for _ in range(2)] == [0, 0]


def test_content_that_was_not_captured_is_inconclusive(policy: Path) -> None:
    silent = event("turn", event_id="1", captured=False, response={})
    done = guard("check", "-", "--policy", policy, stdin=silent + END)
    assert done.returncode == 4
    assert b"could not judge" in done.stderr


BAD_INPUT: list[tuple[str, bytes]] = [
    ("a broken line", b'{"kind": "turn", \n'),
    ("wrong types", event("tool_call", tool=5)),
    ("nesting 100,000 deep", b'{"kind":"tool_call","session_id":"s","tool":"x","args":' + b"[" * 100_000 + b"\n"),
    ("NaN for a time", b'{"kind":"tool_call","session_id":"s","tool":"x","time":NaN}\n'),
    ("half a character for a session", b'{"kind":"user_message","session_id":"\\ud800","text":"x"}\n'),
    ("a key twice", b'{"kind":"tool_call","session_id":"s","session_id":"t","tool":"x"}\n'),
    ("an unknown kind", event("tool_cal", tool="x")),
    ("no session", b'{"kind":"turn"}\n'),
    ("not UTF-8", b'{"kind":"turn","session_id":"\xff"}\n'),
    ("an event of 50 MB", event("user_message", text="x" * 50_000_000)),
]


def test_bad_input_becomes_dead_letters_with_reason_and_place_and_the_rest_is_judged(
    tmp_path: Path, policy: Path
) -> None:
    source, letters = tmp_path / "events.jsonl", tmp_path / "dead.jsonl"
    backwards = event("tool_call", event_id="back", tool="drop_table", args={}, time=1.0)
    source.write_bytes(CLEAN + b"".join(line for _, line in BAD_INPUT) + DROP + backwards + END)
    alerts = tmp_path / "alerts.jsonl"
    done = guard(
        "run", source, "--policy", policy, "--alerts", f"jsonl:{alerts}", "--dead-letters", letters, "--no-serve"
    )
    assert done.returncode == 0, done.stderr
    buried = [json.loads(line) for line in letters.read_text(encoding="utf-8").splitlines()]
    assert [letter["line"] for letter in buried] == list(range(2, 2 + len(BAD_INPUT)))
    assert all(letter["reason"] for letter in buried)
    assert f"{len(BAD_INPUT)} dead letters".encode() in done.stderr
    assert b"1 late events" in done.stderr
    found = [json.loads(line) for line in alerts.read_text(encoding="utf-8").splitlines()]
    assert [alert["event_id"] for alert in found if alert["rule_id"] == "no-drop"] == ["2", "back"]
    lost = [alert["session_id"] for alert in found if alert["rule_id"] == "stream_guard_contested_call"]
    assert lost == ["s", "s", "s", "t"]  # calls that could not be decoded are findings of the sessions that they name


def test_run_follows_a_folder_and_serves_metrics_until_it_is_stopped(tmp_path: Path, policy: Path) -> None:
    folder, alerts = tmp_path / "in", tmp_path / "alerts.jsonl"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(CLEAN)
    command = ["run", folder, "--policy", policy, "--alerts", f"jsonl:{alerts}"]
    command += ["--checkpoint", tmp_path / "checkpoint"]
    process = processes.start(*command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = process.stderr.readline().split()[-1]
        with (folder / "b.jsonl").open("ab") as file:
            file.write(DROP)
        give_up = time.monotonic() + 60
        while not alerts.exists() or not alerts.read_bytes():
            assert time.monotonic() < give_up, "no alert came for an event that was appended"
            time.sleep(0.05)
        metrics = urllib.request.urlopen(url).read().decode()
        assert 'stream_guard_findings_total{rule="no-drop",severity="critical"} 1.0' in metrics
        assert urllib.request.urlopen(url.replace("/metrics", "/healthz")).status == 200
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    finally:
        process.kill()
    assert json.loads(alerts.read_text())["event_id"] == "2"


def test_run_opens_incidents_and_tells_a_person_once(tmp_path: Path, policy: Path) -> None:
    history = tmp_path / "history.db"
    twice = event("tool_call", event_id="4", tool="drop_table", args={"again": True})
    for _ in range(2):
        done = guard(
            "run", "-", "--policy", policy, "--alerts", f"history:{history}", "--no-serve", stdin=CLEAN + DROP + twice
        )
        assert done.returncode == 0, done.stderr
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"history: {{url: {history}}}\n", encoding="utf-8")
    [incident] = json.loads(guard("incidents", "list", "--format", "json", "--settings", settings).stdout)
    assert (incident["rule_id"], incident["session_id"], incident["findings"]) == ("no-drop", "s", 2)
    [told] = json.loads(guard("reviews", "list", "--format", "json", "--settings", settings).stdout)
    assert (told["kind"], told["incident"]) == ("anomaly_alert", incident["id"])


def test_run_refuses_a_checkpoint_for_standard_input(tmp_path: Path, policy: Path) -> None:
    done = guard("run", "-", "--policy", policy, "--checkpoint", tmp_path / "c")
    assert done.returncode == 2
    assert b"standard input" in done.stderr


def test_a_sink_that_cannot_be_opened_stops_the_run_before_anything_is_read(tmp_path: Path, policy: Path) -> None:
    done = guard("run", "-", "--policy", policy, "--alerts", f"jsonl:{tmp_path}/no/such/folder/a.jsonl", stdin=DROP)
    assert done.returncode == 3
    assert b"no/such/folder" in done.stderr


def test_an_unknown_sink_or_format_lists_what_there_is(policy: Path) -> None:
    assert b"console, history, jsonl" in guard("run", "-", "--policy", policy, "--alerts", "pager").stderr
    assert b"native" in guard("check", "-", "--policy", policy, "--from-format", "xml").stderr


def test_lint_lists_eight_planted_mistakes_with_line_and_column(tmp_path: Path) -> None:
    planted = tmp_path / "planted.yaml"
    planted.write_text(
        "rules:\n"
        "  - { id: one, kind: no_cal, params: { tool: a } }\n"
        "  - { id: two, kind: no_call, params: { tol: a } }\n"
        "  - { id: three, kind: max_turns, params: { n: many } }\n"
        "  - { id: four, kind: no_call, params: { tool: a }, severity: fatal }\n"
        "  - { id: five, kind: no_call, params: { tool: a }, when: [{ path: model, op: '=~', value: x }] }\n"
        "  - { id: six, kind: forbidden_text, params: { pattern: '(?=x)' } }\n"
        "  - { id: four, kind: no_call, params: { tool: b } }\n"
        "  - { id: eight, kind: no_call, params: { tool: '@monies' } }\n",
        encoding="utf-8",
    )
    done = guard("lint", planted)
    assert done.returncode == 2
    places = re.findall(rf"{re.escape(str(planted))}:(\d+):(\d+)".encode(), done.stdout)
    assert [int(line) for line, _ in places] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert all(int(column) > 5 for _, column in places)


def test_plugins_shows_what_is_loaded_and_from_where() -> None:
    rows = {row["name"]: row for row in json.loads(guard("plugins", "--format", "json").stdout)}
    assert rows["rules"]["distribution"] == NAME
    assert "must_call_before" in rows["rules"]["provides"]["rules"]


def test_policy_test_runs_the_tests_beside_the_rules(root: Path, tmp_path: Path) -> None:
    sample = root / "deploy" / "policies" / "refunds.yaml"
    done = guard("policy", "test", sample)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, b"3 passed, 0 failed")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        "rules:\n"
        "  - {id: x, kind: no_call, params: {tool: a}, tests: [{claim: silent, trace: [{call: a}]}, {trac: []}]}\n",
        encoding="utf-8",
    )
    done = guard("policy", "test", wrong)
    assert done.returncode == 1
    assert b"fires at [0], wanted []" in done.stdout
    assert b"unknown key 'trac'" in done.stdout


def test_policy_test_without_tests_is_inconclusive(policy: Path) -> None:
    assert guard("policy", "test", policy).returncode == 4


def test_for_on_a_kind_that_fires_once_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "held.yaml"
    path.write_text("rules:\n  - {id: x, kind: max_turns, params: {n: 1}, for: 1m}\n", encoding="utf-8")
    done = guard("lint", path)
    assert done.returncode == 2
    assert b"fires once" in done.stdout


def test_a_backtest_shows_what_a_change_of_policy_adds_and_removes(tmp_path: Path) -> None:
    events, old = write_samples(tmp_path, 40)
    new = tmp_path / "new.yaml"
    text = old.read_text(encoding="utf-8").replace("n: 8", "n: 4").replace('tool: "ledger_*"', "tool: never_called")
    new.write_text(text, encoding="utf-8")
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps({f"refund-{number:05d}": number % 4 == 3 for number in range(40)}), encoding="utf-8")
    command = ("replay", events, "--policy", new, "--compare-policy", old, "--labels", labels)
    done = guard(*command, "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {alert["rule_id"] for alert in result["removed"]} == {"never-touch-the-ledger", "short-conversations"}
    assert {alert["rule_id"] for alert in result["added"]} == {"short-conversations"}
    scores = {score["rule_id"]: score for score in result["new_scores"]}
    assert scores["confirm-before-refund"]["precision"] == 1.0
    assert b"alerts added" in guard(*command).stdout


def test_labels_without_a_policy_to_compare_are_refused(tmp_path: Path, policy: Path) -> None:
    done = guard("replay", tmp_path, "--policy", policy, "--labels", policy)
    assert done.returncode == 2
    assert b"--compare-policy" in done.stderr
