"""Three gates on one real Postgres: any of them answers for any session, and what happens to one loses no count."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ruamel.yaml import YAML

from stream_guard.errors import StoreError
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.storage.shared import SharedStore, _digest
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS
from tests.gates.campaign import POLICY, allowed_by_one_guard, run
from tests.gates.fleet import Fleet
from tests.history.postgres import Server
from tests.integration.test_serve import listening
from tests.parts import import_part


# The long form is `python -m tests.gates`, which also says how long answers take.
@pytest.mark.parametrize(
    ("clients", "checks", "kills"), [(8, 160, 1), pytest.param(64, 20_000, 40, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(7200)
def test_three_gates_count_as_one_over_kills(
    tmp_path: Path, postgres: Server, clients: int, checks: int, kills: int
) -> None:
    with ExitStack() as opened:
        fleet = Fleet(tmp_path, POLICY, postgres.address, 3, opened)
        tally = asyncio.run(run(fleet, Random(7), clients=clients, checks=checks, kills=kills))
        assert fleet.kills == kills
    assert tally.wrong == []
    assert tally.allowed == allowed_by_one_guard(tally.asked)
    assert len(tally.episodes) == 4
    assert sum(tally.allowed.values()) < len(tally.asked), "no limit was reached"


@pytest.fixture
def shared(postgres: Server) -> Iterator[list[Guard]]:
    """Return two guards on one database."""
    rules = (
        rule_spec(KINDS["max_calls"], {"tool": "*", "n": 3}, then=Action.BLOCK),
        rule_spec(KINDS["max_calls"], {"tool": "*", "n": 4}, rule_id="by-agent", key=["agent"], then=Action.BLOCK),
    )
    stores = [SharedStore(postgres.address) for _ in range(2)]
    yield [Guard(Policy(rules=rules, version="v1"), store=store, clock=store.time) for store in stores]
    for store in stores:
        store.close()


def call(number: int, session: str, agent: str) -> ToolCall:
    return ToolCall(session_id=session, event_id=f"e{number}", tool="t", call_id=f"c{number}", agent=agent)


def test_what_one_guard_allowed_the_other_counts(shared: list[Guard]) -> None:
    answers = [shared[number % 2].check(call(number, "by-session", f"a{number}")).action for number in range(5)]
    assert answers == [Action.ALLOW] * 3 + [Action.BLOCK] * 2
    answers = [shared[number % 2].check(call(number, f"x{number}", "one-agent")).action for number in range(6)]
    assert answers == [Action.ALLOW] * 4 + [Action.BLOCK] * 2


def test_a_question_asked_again_at_another_guard_is_one_attempt(shared: list[Guard]) -> None:
    same = call(1, "again", "again")
    assert [guard.check(same).action for guard in (*shared, *shared, *shared)] == [Action.ALLOW] * 6
    assert shared[0].check(call(2, "again", "again")).action is Action.ALLOW


def test_a_database_that_went_away_opens_nothing_and_is_used_again(postgres: Server, shared: list[Guard]) -> None:
    assert shared[0].check(call(1, "away", "away")).action is Action.ALLOW
    postgres.stop()
    try:
        with pytest.raises(StoreError, match="see that the server runs") as failure:
            shared[0].check(call(2, "away", "away"))
        assert "a-password" not in str(failure.value)
    finally:
        postgres.start()
    answers = [shared[number % 2].check(call(number, "away", "away")).action for number in range(3, 7)]
    assert answers == [Action.ALLOW] * 2 + [Action.BLOCK] * 2


def test_a_session_is_judged_by_one_at_a_time(postgres: Server) -> None:
    psycopg = import_part("psycopg")
    order: list[str] = []
    with ExitStack() as opened:
        first, second = (opened.enter_context(closing(SharedStore(postgres.address))) for _ in range(2))
        database = opened.enter_context(psycopg.connect(postgres.address, autocommit=True))

        def hold() -> None:
            waiting.start()
            while not database.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchall():
                pass
            first.put("row", b"of the first", None)
            order.append("first")

        def read() -> None:
            order.append(f"second, after what was {(second.get('row') or b'').decode()}")

        waiting = threading.Thread(target=second.together, args=(["row"], read))
        first.together(["row"], hold)
        waiting.join()
    assert order == ["first", "second, after what was of the first"]


def test_whoever_is_cut_off_while_it_judges_judges_anew(postgres: Server) -> None:
    psycopg = import_part("psycopg")
    seen: list[bytes | None] = []
    with ExitStack() as opened:
        store = opened.enter_context(closing(SharedStore(postgres.address)))
        database = opened.enter_context(psycopg.connect(postgres.address, autocommit=True))
        store.together(["cut"], lambda: store.put("cut", b"1", None))

        def work() -> None:
            seen.append(store.get("cut"))
            store.put("cut", b"2", None)
            if len(seen) == 1:
                cut = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                assert database.execute(cut).fetchall()
                while database.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'").fetchall():
                    pass

        store.together(["cut"], work)
        assert seen == [b"1", b"1"], "what the first try put was not written"
        assert store.together(["cut"], lambda: store.get("cut")) == b"2"


def test_whoever_is_frozen_while_it_judges_loses_its_turn_and_overwrites_nothing(postgres: Server) -> None:
    """The database cuts it off and lets the next one judge. When it goes on, it judges anew by what that one wrote."""
    seen: list[bytes | None] = []
    with ExitStack() as opened:
        frozen, other = (opened.enter_context(closing(SharedStore(postgres.address))) for _ in range(2))
        frozen.together(["row"], lambda: frozen.put("row", b"1", None))
        taking_over = threading.Thread(target=other.together, args=(["row"], lambda: other.put("row", b"2", None)))

        def judge() -> None:
            seen.append(frozen.get("row"))
            if len(seen) == 1:
                taking_over.start()
                taking_over.join()  # as long as a frozen gate stands still, it says nothing to the database
            frozen.put("row", (seen[-1] or b"") + b" and 3", None)

        frozen.together(["row"], judge)
        assert seen == [b"1", b"2"]
        assert other.together(["row"], lambda: other.get("row")) == b"2 and 3"


def test_a_gate_that_was_frozen_answers_like_the_others_afterwards(tmp_path: Path, postgres: Server) -> None:
    with ExitStack() as opened:
        fleet = Fleet(tmp_path, POLICY, postgres.address, 2, opened)
        asked = [{"session_id": "f", "event_id": f"e{number}", "tool": "look"} for number in range(12)]
        assert fleet.servers[0].post("/v1/check", asked[0]).json()["action"] == "allow"
        fleet.freeze(0)
        try:
            answers = [fleet.servers[1].post("/v1/check", body).json()["action"] for body in asked[:11]]
        finally:
            fleet.thaw(0)
        assert answers == ["allow"] * 10 + ["block"], "the first is asked again, and is one attempt"
        assert [fleet.servers[0].post("/v1/check", body).json()["action"] for body in asked[9:]] == [
            "allow",
            "block",
            "block",
        ]


def test_under_different_policies_each_rule_counts_what_gates_that_have_it_judged(postgres: Server) -> None:
    """As while a policy is rolled out: gates without a rule leave alone what it remembers."""
    both = rule_spec(KINDS["max_calls"], {"tool": "*", "n": 8}, rule_id="both", then=Action.BLOCK)
    own = [
        rule_spec(KINDS["max_calls"], {"tool": tool, "n": 2}, rule_id=f"of-{tool}", then=Action.BLOCK) for tool in "tu"
    ]
    with ExitStack() as opened:
        stores = [opened.enter_context(closing(SharedStore(postgres.address))) for _ in own]
        guards = [
            Guard(Policy(rules=(both, rule), version=rule.id), store=store, clock=store.time)
            for rule, store in zip(own, stores, strict=True)
        ]
        asked = [guards[number % 2].check(call(number, "policies", "a")) for number in range(10)]
    # The first guard allows two and blocks the third; the second has no such rule, until both have reached their limit.
    assert [decision.rule_ids for decision in asked] == [
        *[(), ()] * 2,
        *[("of-t",), ()] * 2,
        ("both", "of-t"),
        ("both",),
    ]


def test_changes_that_gates_of_an_earlier_version_add_to_a_row_are_read(postgres: Server) -> None:
    psycopg = import_part("psycopg")
    stored = json.loads((Path(__file__).parents[1] / "golden" / "stored" / "changes.json").read_text())
    rules = (rule_spec(KINDS["max_calls"], {"tool": "*", "n": 80}, rule_id="many", then=Action.BLOCK),)
    changes = [bytes.fromhex(change) for change, _ in stored["changes"]]
    with ExitStack() as opened:
        store = opened.enter_context(closing(SharedStore(postgres.address)))
        store.together(["s"], lambda: store.put("s", bytes.fromhex(stored["blob"]), None))
        database = opened.enter_context(psycopg.connect(postgres.address, autocommit=True))
        framed = b"".join(len(change).to_bytes(4, "little") + change for change in changes)
        database.execute("UPDATE sg_gate_states SET changes = %s WHERE name = %s", [framed, _digest("s")])
        guard = Guard(Policy(rules=rules, version="v1"), store=store, clock=lambda: 1000.0)
        left = 80 - stored["calls"]
        answers = [guard.check(call(1000 + number, "s", "a")).action for number in range(left + 1)]
    assert answers == [Action.ALLOW] * left + [Action.BLOCK]


def test_what_is_over_is_deleted_unless_somebody_holds_it(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as opened:
        first, second = (opened.enter_context(closing(SharedStore(postgres.address))) for _ in range(2))

        def write() -> None:
            for name in ("held", "over", "going on"):
                first.put(name, b"a row", first.time() - 4000 * (name != "going on"))

        first.together(["held", "over", "going on"], write)
        monkeypatch.setattr("stream_guard.storage.shared._PURGE_EVERY", 1)

        def change() -> None:
            second.together(["another"], lambda: None)
            first.put("held", b"later", first.time())

        first.together(["held"], change)
        names = ["held", "over", "going on"]
        rows: list[Any] = first.together(names, lambda: [first.get(name) for name in names])
    assert [row is not None for row in rows] == [True, False, True]
    assert rows[0] == b"later"


def ending(postgres: Server, opened: ExitStack, keep: float | None) -> list[Guard]:
    rule = rule_spec(KINDS["no_call"], {"tool": "stop"}, then=Action.TERMINATE_SESSION, reason="enough")
    stores = [opened.enter_context(closing(SharedStore(postgres.address))) for _ in range(2)]
    policy = Policy(rules=(rule,), version="v1")
    return [Guard(policy, store=store, clock=store.time, keep_ended=keep) for store in stores]


def tool(name: str, session: str, number: int) -> ToolCall:
    return ToolCall(session_id=session, event_id=f"e{number}", tool=name)


def test_a_session_that_one_guard_ended_is_refused_by_the_others(postgres: Server) -> None:
    with ExitStack() as opened:
        first, second = ending(postgres, opened, 3600.0)
        assert second.check(tool("t", "ended here", 0)).action is Action.ALLOW
        assert first.check(tool("stop", "ended here", 1)).session_ended
        refused = [guard.check(tool("t", "ended here", number + 2)) for number, guard in enumerate((first, second))]
        assert {(one.action, one.reason) for one in refused} == {
            (Action.TERMINATE_SESSION, "the session was ended: enough")
        }
        assert second.open_obligations("ended here") == []
        [third] = ending(postgres, opened, 3600.0)[:1]  # as after a restart
        assert third.check(tool("t", "ended here", 4)).action is Action.TERMINATE_SESSION
        assert third.check(tool("t", "another", 5)).action is Action.ALLOW


def test_rows_of_ended_sessions_go_when_nobody_has_tried_for_their_time(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    psycopg = import_part("psycopg")
    rows = "SELECT count(*) FROM sg_gate_states WHERE blob = 'enough'"
    aged = "UPDATE sg_gate_states SET deadline = deadline - 100000 WHERE blob = 'enough'"
    with ExitStack() as opened:
        database = opened.enter_context(psycopg.connect(postgres.address, autocommit=True))
        first, second = ending(postgres, opened, 50_000.0)
        database.execute("DELETE FROM sg_gate_states WHERE blob = 'enough'")
        for number in range(3):
            first.check(tool("stop", f"over {number}", number))
        monkeypatch.setattr("stream_guard.storage.shared._PURGE_EVERY", 1)
        assert database.execute(rows).fetchone() == (3,)
        database.execute(aged)
        second.check(tool("t", "over 0", 9))  # it tries again in time: the row is written anew
        first.check(tool("t", "elsewhere", 10))
        assert database.execute(rows).fetchone() == (1,)
        assert second.check(tool("t", "over 0", 11)).action is Action.TERMINATE_SESSION
        assert first.check(tool("t", "over 1", 12)).action is Action.ALLOW
        assert database.execute(
            "SELECT count(*) FROM sg_gate_states WHERE deadline IS NULL AND blob = 'enough'"
        ).fetchone() == (0,)


def test_the_gates_of_the_compose_file_are_one(postgres: Server, root: Path, tmp_path: Path) -> None:
    service = YAML(typ="safe", pure=True).load(root / "docker-compose.yml")["services"]["gate"]
    places = {
        "/policies/${POLICY:-refunds.yaml}": f"{root}/deploy/policies/refunds.yaml",
        "0.0.0.0": "127.0.0.1",
        "8750": "0",
        "postgresql:///guard": postgres.address,
        "${GATE_TOKEN:-}": "a-token-that-is-long-enough-for-all",
    }

    def here(text: str) -> str:
        for there, place in places.items():
            text = text.replace(there, place)
        return text

    variables = {name: here(value) for name, value in service["environment"].items() if not name.startswith("PG")}
    command = [here(word) for word in service["command"]]
    order = {"session_id": "compose", "args": {"order_id": "A1", "amount": 10}}
    result = {"kind": "tool_result", "session_id": "compose", "call_id": "c", "status": "ok"}
    with ExitStack() as opened:
        gates = []
        for number in range(service["deploy"]["replicas"]):
            (tmp_path / str(number)).mkdir()
            gates.append(opened.enter_context(listening(command, variables, tmp_path / str(number))))

        def ask(number: int, path: str, body: dict[str, Any]) -> str:
            token = places["${GATE_TOKEN:-}"]
            answer: str = gates[number].post(path, body, Authorization=f"Bearer {token}").json()["action"]
            return answer

        assert ask(0, "/v1/check", {**order, "tool": "issue_refund"}) == "block"
        assert ask(1, "/v1/check", {**order, "tool": "confirm_refund_amount", "call_id": "c"}) == "allow"
        assert ask(2, "/v1/events", {"events": [result]}) == "allow"
        assert ask(0, "/v1/check", {**order, "tool": "issue_refund", "event_id": "again"}) == "allow"
