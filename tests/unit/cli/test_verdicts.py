"""``verdicts`` in the terminal: said, summed up for a policy, and turned into an exception that a replay proves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.unit.cli.kept_alerts import RULES, KeptAlerts

PAYMENTS = [("paid-1", "petty"), ("paid-2", "petty"), ("paid-3", "x"), ("paid-4", "y")]


@pytest.fixture
def kept(tmp_path: Path) -> KeptAlerts:
    return KeptAlerts(tmp_path, [(session, "pay", {"to": to}) for session, to in PAYMENTS])


def give(kept: KeptAlerts, words: dict[str, str]) -> None:
    for session, word in words.items():
        [alert] = kept.listed("--session", session)
        done = kept.ask("verdicts", "give", alert["alert_id"], word, "--by", "ann")
        assert done.exit_code == 0, done.output
        assert done.stderr == f"{alert['alert_id']} of no-pay is {word}, says ann\n"


def test_a_verdict_on_an_alert_that_is_not_there_is_refused(kept: KeptAlerts) -> None:
    result = kept.ask("verdicts", "give", "0000000000", "right")
    assert result.exit_code != 0
    assert "0000000000" in str(result.exception)


def test_a_word_that_is_no_verdict_is_a_mistake_of_usage(kept: KeptAlerts) -> None:
    result = kept.ask("verdicts", "give", kept.listed()[0]["alert_id"], "maybe")
    assert result.exit_code == 2
    assert all(word in result.output for word in ("right", "wrong", "benign"))


def test_the_last_word_counts(kept: KeptAlerts) -> None:
    give(kept, {"paid-1": "right"})
    give(kept, {"paid-1": "wrong"})
    rows = json.loads(
        kept.ask("verdicts", "report", "--policy", kept.policy, "--minimum", 1, "--format", "json").stdout
    )
    assert [(row["rule_id"], row["right"], row["wrong"]) for row in rows] == [("no-pay", 0, 1), ("no-look", 0, 0)]


def test_the_report_says_of_every_rule_what_to_do(kept: KeptAlerts) -> None:
    give(kept, {"paid-1": "wrong", "paid-2": "benign", "paid-3": "right", "paid-4": "right"})
    asked = ("verdicts", "report", "--policy", kept.policy, "--format", "json")
    few = {row["rule_id"]: row["advice"] for row in json.loads(kept.ask(*asked).stdout)}
    enough = {row["rule_id"]: row["advice"] for row in json.loads(kept.ask(*asked, "--minimum", 4).stdout)}
    assert few == {"no-pay": "undecided", "no-look": "undecided"}
    assert enough == {"no-pay": "tune", "no-look": "undecided"}
    shown = kept.ask("verdicts", "report", "--policy", kept.policy, "--minimum", 4).stdout
    assert "tune" in next(line for line in shown.splitlines() if line.startswith("no-pay"))


def test_a_proposal_is_data_that_lets_the_right_findings_stand(kept: KeptAlerts) -> None:
    give(kept, {"paid-1": "wrong", "paid-3": "right"})
    done = kept.ask("verdicts", "propose", "no-pay", kept.events, "--policy", kept.policy)
    assert done.exit_code == 0, done.output
    proposed = YAML(typ="safe").load(done.stdout)
    assert proposed == {"id": "no-pay", "unless": {"path": "tool.args.to", "op": "==", "value": "petty"}}
    assert "all 1 findings marked right still fire; 1 of 1 marked wrong do not; 1 others do not" in done.stderr
    kept.policy.write_text(RULES.replace("{tool: pay}", f"{{tool: pay}}, unless: {json.dumps(proposed['unless'])}"))
    left = kept.invoke("check", kept.events, "--policy", kept.policy, "--format", "jsonl")
    assert [json.loads(line)["session_id"] for line in left.stdout.splitlines()] == ["paid-3", "paid-4"]


def test_there_is_no_proposal_where_nothing_tells_right_from_wrong(kept: KeptAlerts) -> None:
    give(kept, {"paid-1": "wrong", "paid-2": "right"})
    done = kept.ask("verdicts", "propose", "no-pay", kept.events, "--policy", kept.policy)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "no exception: " in done.stderr


def test_a_rule_of_which_nothing_was_said_says_how_to(kept: KeptAlerts) -> None:
    done = kept.ask("verdicts", "propose", "no-look", kept.events, "--policy", kept.policy)
    assert done.exit_code != 0
    assert "stream-guard verdicts give" in str(done.exception)
