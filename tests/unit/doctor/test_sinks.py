"""``doctor`` and sinks: whether alerts would arrive, and on request one that does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stream_guard_sinks.webhook import read_secrets, sign
from typer.testing import CliRunner

from stream_guard.cli.app import app
from tests.http_end import HttpEnd, Reply

SECRET = "whsec_" + "A" * 43 + "="
TOKEN = "canary-token-0123456789"


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as opened:
        yield opened


def ask(folder: Path, routes: dict[str, Any], *flags: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the exit code, and the checks by what they are about."""
    settings = folder / "settings.yaml"
    settings.write_text(json.dumps({"delivery": {"routes": routes}}))
    done = CliRunner().invoke(app, ["doctor", "--settings", str(settings), "--format", "json", *flags])
    assert TOKEN not in done.output
    assert SECRET not in done.output
    return done.exit_code, {check["about"]: check for check in json.loads(done.stdout)}


def routes_to(end: HttpEnd) -> dict[str, Any]:
    return {
        "pager": {"to": f"alertmanager:{end.url}", "token": TOKEN},
        "hook": {"to": f"webhook:{end.url}/in", "secret": SECRET},
        "logs": {"to": f"otlp:{end.url}"},
        "siem": {"to": f"ocsf:{end.url}/findings"},
    }


def test_sinks_that_answer_are_fit_and_no_alert_is_sent(end: HttpEnd, tmp_path: Path) -> None:
    code, checks = ask(tmp_path, routes_to(end))
    assert (code, {check["status"] for check in checks.values()}) == (0, {"ok"})
    assert checks["sink pager"]["found"] == "127.0.0.1 takes alerts"
    assert [(request.path, request.body) for request in end.requests] == [
        ("/api/v2/alerts", b"[]"),
        ("/in", b""),
        ("/v1/logs", b'{"resourceLogs": []}'),
        ("/findings", b""),
    ]
    assert end.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_test_alert_goes_to_every_sink_when_asked_for(end: HttpEnd, tmp_path: Path) -> None:
    file = tmp_path / "alerts.jsonl"
    code, checks = ask(tmp_path, routes_to(end), "--alerts", f"jsonl:{file}", "--send-test")
    assert code == 0
    assert all("took the test alert test-" in check["found"] for check in checks.values())
    assert sum(b"stream-guard-test" in request.body for request in end.requests) == 4
    written = json.loads(file.read_text())
    assert (written["rule_id"], written["severity"]) == ("stream-guard-test", "info")
    assert "Nothing happened" in written["detail"]


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_receiver_that_keeps_us_out_must_be_mended(end: HttpEnd, tmp_path: Path, status: int) -> None:
    end.reply = Reply(status)
    code, checks = ask(tmp_path, routes_to(end))
    assert (code, {check["status"] for check in checks.values()}) == (1, {"fail"})
    assert {check["found"].rpartition(" ")[2] for check in checks.values()} == {str(status)}
    assert "token" in checks["sink pager"]["advice"]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_receiver_that_takes_nothing_but_post_is_fit(end: HttpEnd, tmp_path: Path, status: int) -> None:
    end.reply = Reply(status)
    hook = {"hook": routes_to(end)["hook"]}
    code, checks = ask(tmp_path, hook)
    assert (code, checks["sink hook"]["status"], checks["sink hook"]["found"]) == (0, "ok", "127.0.0.1 answers")


def test_a_webhook_on_the_command_line_is_signed_with_the_secret_of_the_environment(
    end: HttpEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = ("--alerts", f"webhook:{end.url}/in")
    code, checks = ask(tmp_path, {}, *hook, "--send-test")
    [check] = checks.values()
    assert (code, check["status"]) == (1, "fail")
    assert "STREAM_GUARD_DELIVERY__SECRET" in check["found"]
    monkeypatch.setenv("STREAM_GUARD_DELIVERY__SECRET", SECRET)
    assert ask(tmp_path, {}, *hook, "--send-test")[0] == 0
    sent = end.requests[-1]
    name, time = sent.headers["webhook-id"], int(sent.headers["webhook-timestamp"])
    assert sent.headers["webhook-signature"] == sign(read_secrets(SECRET)[0], name, time, sent.body)


def test_nobody_at_the_address_must_be_mended_and_does_not_hide_the_others(end: HttpEnd, tmp_path: Path) -> None:
    gone = {"gone": {"to": "alertmanager:http://127.0.0.1:9"}}
    code, checks = ask(tmp_path, gone | routes_to(end))
    assert code == 1
    assert checks["sink gone"]["status"] == "fail"
    assert "cannot be reached" in checks["sink gone"]["found"]
    assert checks["sink logs"]["status"] == "ok"


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ({"to": "webhook:http://127.0.0.1:9"}, "needs a secret"),
        ({"to": "alertmanager:http://127.0.0.1:9", "token_file": "/no/such/file"}, "/no/such/file"),
        ({"to": "carrier:coop"}, "unknown sink 'carrier'"),
        ({"to": "webhook:", "secret": SECRET}, "needs an address"),
        ({}, "needs to or to_file"),
    ],
)
def test_a_route_that_cannot_be_opened_says_why(tmp_path: Path, route: dict[str, str], said: str) -> None:
    code, checks = ask(tmp_path, {"way": route})
    assert (code, checks["sink way"]["status"]) == (1, "fail")
    assert said in checks["sink way"]["found"]


def test_a_sink_that_cannot_be_asked_says_what_would_show_more(tmp_path: Path) -> None:
    code, checks = ask(tmp_path, {"file": {"to": f"jsonl:{tmp_path / 'alerts.jsonl'}"}})
    assert (code, checks["sink file"]["found"]) == (0, "can be opened")
    assert "--send-test" in checks["sink file"]["advice"]


def test_the_name_of_a_sink_on_the_command_line_keeps_its_address_secret(end: HttpEnd, tmp_path: Path) -> None:
    _, checks = ask(tmp_path, {}, "--alerts", f"alertmanager:{end.url}/{TOKEN}")
    [about] = checks
    assert about.startswith("sink alertmanager-")


def test_a_test_alert_for_no_sink_says_what_to_give() -> None:
    done = CliRunner().invoke(app, ["doctor", "--send-test"])
    assert done.exit_code != 0
    assert "--alerts" in str(done.exception)
