"""A server that follows its policy file, as agents and operators meet it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.errors import SettingsError
from stream_guard.history import audit, policies
from stream_guard.history.database import open_database
from tests import plain_http
from tests.integration.test_serve import Running, serving

ORDER = "  - {id: order, kind: must_call_before, params: {first: confirm, second: refund}, then: block}\n"
BEFORE = f"rules:\n{ORDER}"
AFTER = f"rules:\n  - {{id: no-drop, kind: no_call, params: {{tool: drop}}, then: block}}\n{ORDER}"


def check(server: Running, tool: str, session: str = "s") -> dict[str, Any]:
    answer: dict[str, Any] = server.post("/v1/check", {"session_id": session, "tool": tool}).json()
    return answer


def text_of(server: Running, path: str) -> str:
    return plain_http.get(f"{server.url}{path}", timeout=30).text


def wait_for(server: Running, sample: str) -> None:
    end = time.monotonic() + 30
    while sample not in text_of(server, "/metrics").splitlines():
        assert time.monotonic() < end, f"{sample} never came"
        time.sleep(0.05)


def test_an_edit_judges_the_next_attempt_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    with serving(tmp_path, policy=BEFORE) as server:
        old = check(server, "drop")
        assert (old["action"], check(server, "confirm")["action"]) == ("allow", "allow")
        os.utime(file, (1, 1))  # touched, and the same
        wait_for(server, 'stream_guard_policy_reloads_total{result="unchanged"} 1.0')
        file.write_text(AFTER)
        wait_for(server, 'stream_guard_policy_reloads_total{result="ok"} 1.0')
        new = check(server, "drop")
        assert (new["action"], new["rules"]["checked"]) == ("block", ["no-drop"])
        assert new["policy_version"] != old["policy_version"]
        # The session was confirmed under the old policy; another one was not.
        assert [check(server, "refund", session)["action"] for session in "st"] == ["allow", "block"]
        asked = server.post("/v1/obligations", {"session_id": "s"}).json()
        assert asked["policy_version"] == new["policy_version"]
        file.write_text(AFTER.replace("no_call", "no_cal"))
        wait_for(server, 'stream_guard_policy_reloads_total{result="failed"} 1.0')
        kept = check(server, "drop", "u")
        assert (kept["action"], kept["policy_version"]) == ("block", new["policy_version"])
        page = text_of(server, "/policy")
        assert (new["policy_version"] in page, "no-drop" in page, "no_cal<" in page) == (True, True, False)
        assert "kind: no_cal," not in page, "the text in force, not the broken file"
        server.process.terminate()
        assert server.process.stderr is not None
        said = server.process.stderr.read()
    assert f"policy {new['policy_version']} replaces {old['policy_version']}" in said
    assert f"policy {new['policy_version']} stays in force" in said
    assert "no_call" in said, "what was meant is proposed"
    database = open_database(str(tmp_path / "history.db"))
    noted = [policy.version for policy in policies.listing(database)]
    assert noted == [old["policy_version"], new["policy_version"]]
    assert audit.verify(database).problems == ()
    database.close()


@pytest.mark.parametrize(("flags", "follows"), [((), True), (("--no-reload",), False)])
def test_a_server_that_is_told_to_keep_its_policy_is_given_nothing_to_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], follows: bool
) -> None:
    given: list[object] = []

    def open_nothing(*_: object, following: object, **__: object) -> None:
        given.append(following)
        raise SettingsError("no server is needed")

    monkeypatch.setattr("stream_guard.serve.assembly.open_server", open_nothing)
    policy = tmp_path / "policy.yaml"
    policy.write_text(BEFORE)
    CliRunner().invoke(app, ["serve", "--policy", str(policy), *flags])
    assert [following is not None for following in given] == [follows]
