"""``learn``: what is proposed, what becomes of answers, and what new recordings no longer keep."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.history import lessons
from stream_guard.history.database import open_database
from stream_guard.judge.model import Event
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests.unit.learning.desk import Desk, fine_session, fine_sessions

STATUS = "learned-state-cancel_order-get_order-status"
CONSENT = "learned-yes-before-cancel_order"


def write(file: Path, events: list[Event]) -> Path:
    file.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    return file


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    return write(tmp_path / "traces.jsonl", fine_sessions(45))


def run(*arguments: str | Path, answers: str = "") -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=answers)


def test_it_lists_rules_with_what_they_rest_on(traces: Path) -> None:
    result = run("learn", traces)
    assert result.exit_code == 0, result.output
    assert "45 sessions of 45 tasks" in result.stdout
    assert "status of get_order for the order_id of cancel_order is pending" in result.stdout
    assert f"{STATUS} (must_match_lookup): about 30 sessions; broken in 0" in result.stdout
    assert "expected on unseen fine sessions: 0.0%" in result.stdout
    assert not (traces.parent / "policy.yaml").exists()


def test_accepted_rules_go_into_the_policy_in_shadow_mode_and_answers_are_remembered(traces: Path) -> None:
    policy = traces.parent / "policy.yaml"
    policy.write_text("# ours\nname: ours\nrules:\n  - {id: few, kind: max_turns, params: {n: 30}}  # stays\n")
    result = run("learn", traces, "--policy", policy, "--accept", STATUS, "--refuse", CONSENT)
    assert result.exit_code == 0, result.output
    assert "# stays" in policy.read_text()
    loaded = load_policy(policy, build_registry())
    assert [(rule.id, rule.shadow) for rule in loaded.rules] == [("few", False), (STATUS, True)]
    kept = json.loads((traces.parent / "policy.learned.json").read_text())
    assert (list(kept["accepted"]), list(kept["refused"])) == ([STATUS], [CONSENT])
    again = run("learn", traces, "--policy", policy).stdout
    assert "2 of them have an answer" in again
    assert STATUS not in again
    assert CONSENT not in again


def test_a_rule_that_is_in_force_stays_so_when_it_is_accepted_again(traces: Path) -> None:
    policy = traces.parent / "policy.yaml"
    for command in (
        ("learn", traces, "--policy", policy, "--accept", STATUS),
        ("policy", "promote", policy, STATUS),
        ("learn", traces, "--policy", policy, "--accept", STATUS),
    ):
        assert run(*command).exit_code == 0
    assert [rule.shadow for rule in load_policy(policy, build_registry()).rules] == [False]


@pytest.mark.long
def test_answers_from_the_page_are_taken_over(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_GUARD_HISTORY__URL", str(traces.parent / "history.db"))
    policy = traces.parent / "policy.yaml"
    assert run("learn", traces, "--policy", policy, "--save").exit_code == 0
    assert not policy.exists()
    history = open_database(str(traces.parent / "history.db"))
    assert {STATUS, CONSENT} <= {lesson.id for lesson in lessons.listing(history)}
    lessons.decide(history, STATUS, "accepted", by="ann", time=1.0)
    lessons.decide(history, CONSENT, "refused", by="ann", time=1.0)
    assert run("learn", traces, "--policy", policy, "--save").exit_code == 0
    assert [(rule.id, rule.shadow) for rule in load_policy(policy, build_registry()).rules] == [(STATUS, True)]
    states = {lesson.id: lesson.state for lesson in lessons.listing(history)}
    history.close()
    assert (states[STATUS], states[CONSENT]) == ("accepted", "refused")
    assert CONSENT not in run("learn", traces, "--policy", policy).stdout


def test_each_open_rule_is_asked_about(traces: Path) -> None:
    policy = traces.parent / "policy.yaml"
    assert run("learn", traces, "--policy", policy, "--ask", answers="yes\nno\nlater\nstop\n").exit_code == 0
    kept = json.loads((traces.parent / "policy.learned.json").read_text())
    assert (len(kept["accepted"]), len(kept["refused"])) == (1, 1)
    assert [rule.id for rule in load_policy(policy, build_registry()).rules] == list(kept["accepted"])


def test_all_that_is_proposed_can_be_taken_and_finds_nothing_in_the_traces(traces: Path) -> None:
    policy = traces.parent / "policy.yaml"
    assert run("learn", traces, "--policy", policy, "--accept", "all").exit_code == 0
    checked = run("check", traces, "--policy", policy, "--shadow", "--allow-inconclusive")
    assert checked.exit_code == 0, checked.output


@pytest.mark.long
def test_labels_say_what_is_learned_from(traces: Path) -> None:
    labels = traces.parent / "labels.json"
    labels.write_text(json.dumps({f"s{number}": number >= 40 for number in range(45)}))
    assert "40 sessions of 40 tasks" in run("learn", traces, "--labels", labels).stdout


def _changed(number: int) -> list[Event]:
    """The desk no longer asks, and calls something new."""
    desk = Desk(f"n{number}")
    desk.user(f"I am user{number}, order V{number}: too late.")
    desk.call("find_customer", {"name": f"user{number}"}, {"orders": [f"V{number}"]})
    desk.call("get_order", {"order_id": f"V{number}"}, {"status": "pending", "card": "cash"})
    desk.call("cancel_order", {"order_id": f"V{number}", "reason": "too late", "refund_to": "cash"})
    desk.call("send_survey", {"to": f"user{number}"})
    return desk.events


def test_what_new_recordings_no_longer_keep_is_said(traces: Path) -> None:
    new = write(traces.parent / "new.jsonl", [event for number in range(30) for event in _changed(number)])
    result = run("learn", traces, "--diff", new)
    assert result.exit_code == 1
    assert "no longer kept: the user says yes before cancel_order" in result.stdout
    assert "no longer kept: no call comes after cancel_order" in result.stdout
    assert "send_survey is called in 30 of 30 sessions; 0 of 45 before" in result.stdout
    assert "no longer kept: status of get_order" not in result.stdout


def test_more_of_the_same_is_no_change(traces: Path) -> None:
    same = write(traces.parent / "same.jsonl", [event for number in range(90, 120) for event in fine_session(number)])
    result = run("learn", traces, "--diff", same)
    assert result.exit_code == 0, result.stdout
    assert "the new sessions keep what was learned from the old ones" in result.stdout


def test_bad_input_is_said_with_what_to_do(traces: Path) -> None:
    assert "was learned" in str(
        run("learn", traces, "--accept", "learned-state-cancel_order-get_order-statu").exception
    )
    assert "write it to a file" in str(run("learn", "-").exception)
    (traces.parent / "policy.learned.json").write_text("[]")
    said = str(run("learn", traces, "--policy", traces.parent / "policy.yaml").exception)
    assert "policy.learned.json" in said
    assert "move it away" in said


def test_nothing_to_learn_is_inconclusive(tmp_path: Path) -> None:
    assert run("learn", write(tmp_path / "few.jsonl", fine_sessions(3))).exit_code == 4
