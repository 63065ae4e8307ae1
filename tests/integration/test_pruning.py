"""The history is kept to its limits by whatever writes to it, and by a command."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stream_guard.history import audit, incidents
from stream_guard.history.database import Database, open_database
from stream_guard.history.retention import would_prune
from stream_guard.settings import HistorySettings
from tests import processes
from tests.history.claims import World, call
from tests.history.postgres import Server
from tests.history.retention_claims import DAY, ago, everything
from tests.integration.test_serve import Running, listening, serving

POLICY = "rules:\n  - {id: never, kind: no_call, params: {tool: drop}, then: block}\n"


def filled(address: str) -> World:
    """Return a history with what is settled and old, and a finding of now that nobody has solved."""
    world = World(lambda: open_database(address))
    everything(world)
    ago(world, 0)
    world.gate().check(call("drop", session="young"))
    return world


def rest(database: Database) -> int:
    return sum(would_prune(database, HistorySettings(keep=30 * DAY)).values())


def ask(server: Running, number: int) -> str:
    body = {"session_id": "s", "event_id": f"e{number}", "tool": "drop"}
    action: str = server.post("/v1/check", body).json()["action"]
    return action


def wait_until_pruned(world: World, meanwhile: Callable[[], Any]) -> None:
    """Go on until nothing is left to prune; the limit of the test ends it where that never comes."""
    while rest(world.database):
        meanwhile()
    assert audit.verify(world.database).problems == ()
    assert "young" in {one.session_id for one in incidents.listing(world.database, "unresolved")}


def test_a_server_prunes_while_it_answers(tmp_path: Path) -> None:
    with filled(str(tmp_path / "history.db")) as world:
        assert rest(world.database)
        with serving(tmp_path, policy=POLICY, STREAM_GUARD_HISTORY__KEEP="30d") as server:
            number = count()

            def meanwhile() -> None:
                assert ask(server, next(number)) == "block"

            wait_until_pruned(world, meanwhile)


def test_servers_that_share_a_history_prune_it_together(tmp_path: Path, postgres: Server) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    words = ["serve", "--policy", tmp_path / "policy.yaml", "--port", "0", "--history", postgres.address]
    variables = {"STREAM_GUARD_HISTORY__KEEP": "30d"}
    with (
        filled(postgres.address) as world,
        listening(words, variables) as first,
        listening(words, variables) as second,
    ):
        wait_until_pruned(world, lambda: [ask(server, 1) for server in (first, second)])


def test_a_run_whose_findings_go_to_a_history_prunes_it(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    history = tmp_path / "history.db"
    with filled(str(history)) as world:
        process = processes.start(
            *("run", "-", "--policy", tmp_path / "policy.yaml", "--alerts", f"history:{history}"),
            stdin=-1,
            env={"STREAM_GUARD_HISTORY__KEEP": "30d"},
        )
        assert process.stdin is not None
        event = {"kind": "tool_call", "session_id": "told", "event_id": "e", "tool": "drop", "args": {}}
        process.stdin.write(json.dumps(event).encode() + b"\n")
        process.stdin.flush()
        wait_until_pruned(world, lambda: time.sleep(0.05))
        process.stdin.close()
        process.wait(60)


def test_without_a_limit_of_time_a_server_keeps_everything(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("history: {keep: null}\n")
    with filled(str(tmp_path / "history.db")) as world:
        before = audit.verify(world.database).head
        with serving(tmp_path, "--settings", str(tmp_path / "settings.yaml"), policy=POLICY) as server:
            assert ask(server, 1) == "block"
        assert audit.verify(world.database, before).pruned.number == 0


def test_the_command_says_what_goes_and_takes_it_out(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    with filled(str(history)) as world:
        words = ("history", "prune", "--history", history, "--keep", "30d")
        before = audit.verify(world.database).head
        tried = processes.run(*words, "--dry-run", text=True)
        assert tried.returncode == 0
        assert audit.verify(world.database).head == before
        done = processes.run(*words, text=True)
        assert (done.returncode, done.stdout) == (0, tried.stdout)
        for wanted in (f"{before.number - 2} records of the audit", "4 answers of the gate", "solved incidents"):
            assert wanted in done.stdout
        assert "dry run" in tried.stderr
        assert "nothing is old enough" in processes.run(*words, text=True).stderr
        verified = processes.run("audit", "verify", "--history", history, text=True)
        assert verified.returncode == 0
        assert f"the first {before.number - 2} were pruned" in verified.stderr
        late = processes.run("audit", "verify", "--history", history, "--head", f"3:{'0' * 64}", text=True)
        assert (late.returncode, "it was pruned" in late.stderr) == (1, True)


@pytest.mark.parametrize(("option", "value"), [("--keep", "a week"), ("--keep", "10s"), ("--max-records", "0")])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, option: str, value: str) -> None:
    with filled(str(tmp_path / "history.db")) as world:
        before = audit.verify(world.database).head
        done = processes.run("history", "prune", "--history", tmp_path / "history.db", option, value, text=True)
        assert done.returncode == 2
        assert audit.verify(world.database).head == before


def test_a_history_with_a_changed_record_is_not_pruned_and_the_command_says_why(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    with filled(str(history)) as world:
        with world.database.transaction() as statements:
            statements.run("UPDATE sg_audit SET body = replace(body, '\"what\"', '\"that\"') WHERE number = 3")
        before = world.database.read("SELECT count(*) FROM sg_audit")
        for more in ((), ("--dry-run",)):
            done = processes.run("history", "prune", "--history", history, "--keep", "30d", *more, text=True)
            assert done.returncode != 0
            assert "record 3 was changed" in done.stderr
        assert world.database.read("SELECT count(*) FROM sg_audit") == before
