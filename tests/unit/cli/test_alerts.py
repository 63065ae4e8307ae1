"""``alerts``: what the history keeps, filtered, and found again by the beginning of an id."""

from __future__ import annotations

import json
import time

import pytest

from stream_guard.cli.forms import parse_since, parse_time
from stream_guard.errors import SettingsError
from tests.unit.cli.kept_alerts import KeptAlerts

CALLS = [
    ("session-one", "pay", {"to": "a"}),
    ("session-one", "look", {}),
    ("session-two", "pay", {"to": "b"}),
    ("other-\x1b[31m", "look", {}),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> KeptAlerts:
    return KeptAlerts(tmp_path_factory.mktemp("kept"), CALLS)


def test_alerts_are_listed_the_latest_first_with_where_they_were_found(kept: KeptAlerts) -> None:
    found = kept.listed()
    assert [(alert["session_id"], alert["rule_id"]) for alert in found] == [
        ("other-\x1b[31m", "no-look"),
        ("session-two", "no-pay"),
        ("session-one", "no-look"),
        ("session-one", "no-pay"),
    ]
    assert [alert["line"] for alert in found] == [4, 3, 2, 1]
    assert all(abs(alert["noted"] - time.time()) < 600 for alert in found)
    assert json.loads(kept.ask("alerts", "list", "--format", "json").stdout) == found


@pytest.mark.parametrize(
    ("filters", "lines"),
    [
        (("--severity", "error"), [3, 1]),
        (("--rule", "no-look"), [4, 2]),
        (("--session", "session-two"), [3]),
        (("--session", "session-"), [3, 2, 1]),
        (("--session", "session-", "--severity", "critical"), [3, 1]),
        (("--session", "ses"), []),
        (("--since", "1h"), [4, 3, 2, 1]),
        (("--since", "2100-01-01"), []),
        (("--text", "PAY"), [3, 1]),
        (("--limit", "2"), [4, 3]),
    ],
)
def test_filters_leave_what_was_asked_for(kept: KeptAlerts, filters: tuple[str, ...], lines: list[int]) -> None:
    assert [alert["line"] for alert in kept.listed(*filters)] == lines


def test_what_is_left_out_is_told(kept: KeptAlerts) -> None:
    assert "there are more; --limit shows them" in kept.ask("alerts", "list", "--limit", "3").stderr
    assert kept.ask("alerts", "list", "--limit", "4").stderr == ""


def test_a_line_for_people_names_the_alert_and_obeys_no_agent(kept: KeptAlerts) -> None:
    first, *_, last = kept.ask("alerts", "list").stdout.splitlines()
    assert "\x1b" not in first
    assert "INFO no-look session other-\\u001b[31m: " in first
    assert "CRITICAL no-pay session session-one: " in last
    assert last.endswith(f"[{kept.listed()[-1]['alert_id']}]")


def test_an_alert_is_shown_by_the_beginning_of_its_id_with_what_was_said_of_it(kept: KeptAlerts) -> None:
    name = kept.listed("--session", "session-two")[0]["alert_id"]
    shown = json.loads(kept.ask("alerts", "show", name[:8]).stdout)
    assert (shown["alert_id"], shown["rule_id"], "verdict" in shown) == (name, "no-pay", False)
    assert kept.ask("verdicts", "give", name[:8], "wrong", "--by", "ann", "--note", "a test").exit_code == 0
    said = json.loads(kept.ask("alerts", "show", name).stdout)["verdict"]
    assert (said["verdict"], said["by"], said["note"]) == ("wrong", "ann", "a test")


def test_an_alert_that_is_not_there_is_an_error_that_says_where_to_look(kept: KeptAlerts) -> None:
    result = kept.ask("alerts", "show", "00000000")
    assert result.exit_code != 0
    assert "stream-guard alerts list" in str(result.exception)


@pytest.mark.parametrize(
    ("text", "moment"),
    [("1767225600", 1767225600.0), ("2026-01-01", 1767225600.0), ("2026-01-01T01:00+01:00", 1767225600.0)],
)
def test_a_moment_is_a_date_or_seconds(text: str, moment: float) -> None:
    assert parse_time("--since", text) == parse_since("--since", text, 5.0) == moment


def test_so_long_ago_is_counted_from_now() -> None:
    assert parse_since("--since", "2h", 10_000.0) == 2_800.0


@pytest.mark.parametrize("text", ["yesterday", "0h", "..h", ""])
def test_what_is_no_moment_is_refused_with_the_flag(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--since "):
        parse_since("--since", text, 5.0)
