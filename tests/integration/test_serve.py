"""The server as agents meet it: a process, HTTP, many callers at once, kills and nonsense."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

import stream_guard as sg
from stream_guard.doctor.topics import probe
from stream_guard.guard.inline import Guard
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests import plain_http, processes

POLICY = """
rules:
  - {id: confirm-first, kind: must_call_before, params: {first: confirm, second: refund}, then: block}
  - {id: once, kind: must_call_once, params: {tool: close}, then: terminate_session}
  - {id: ask, kind: no_call, params: {tool: wire}, then: pause, reason: A person looks at every wire.}
"""
STEPS, CLIENTS = 20, 64
TOOLS = ("read", "refund", "read", "confirm", "refund", "wire", "close", "read", "close", "refund")


class Running:
    """A server process."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return plain_http.post(f"{self.url}{path}", json=body, headers=headers, timeout=30)

    def get(self, path: str) -> Any:
        return plain_http.get(f"{self.url}{path}", timeout=30).json()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def serving(folder: Path, *options: str, policy: str = POLICY, **variables: str) -> Iterator[Running]:
    (folder / "policy.yaml").write_text(policy)
    command = ["serve", "--policy", folder / "policy.yaml", "--port", "0", "--history", folder / "history.db", *options]
    with listening(command, variables) as server:
        yield server


@contextmanager
def listening(command: Sequence[object], variables: Mapping[str, str], folder: Path | None = None) -> Iterator[Running]:
    """Run a command that serves until the end of the block."""
    # A busy machine may take longer than the budget in earnest; a check over its budget has a test of its own.
    environment = {"STREAM_GUARD_API__BUDGET": "60", **variables}
    process = processes.start(*command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("listening at "), line
        yield Running(process, line.removeprefix("listening at ").strip())
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        process.stderr.close()


def attempt(session: str, step: int) -> dict[str, Any]:
    tool = TOOLS[step % len(TOOLS)]
    return {"session_id": session, "event_id": f"e{step}", "tool": tool, "args": {"step": step}}


# Two sessions for each client, or ten thousand checks.
@pytest.mark.parametrize("sessions", [128, pytest.param(500, marks=pytest.mark.slow)])
def test_checks_from_many_clients_get_the_answers_of_a_serial_run(tmp_path: Path, sessions: int) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    guard = Guard(load_policy(tmp_path / "policy.yaml", build_registry()))
    wanted = {
        (number, step): guard.check(sg.ToolCall(**attempt(f"s{number}", step))).action.word
        for number in range(sessions)
        for step in range(STEPS)
    }
    with serving(tmp_path) as server:
        found = asyncio.run(_ask_all(server.url, sessions))
        metrics = plain_http.get(f"{server.url}/metrics").text
    assert len(found) == sessions * STEPS
    assert {key: action for key, action in found.items() if action != wanted[key]} == {}
    for action, number in Counter(found.values()).items():
        assert f'stream_guard_decisions_total{{action="{action}"}} {number:.1f}' in metrics
    assert len(Counter(found.values())) == 4


async def _ask_all(url: str, sessions: int) -> dict[tuple[int, int], str]:
    """Every client has its sessions; in a session one attempt follows the other, as an agent makes them."""
    found: dict[tuple[int, int], str] = {}

    async def work(client: int) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for step in range(STEPS):
            for number in range(client, sessions, CLIENTS):
                answer = await _ask(reader, writer, f"{host}:{port}", attempt(f"s{number}", step))
                found[number, step] = answer["action"]
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(work(client) for client in range(CLIENTS)))
    return found


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Post over a connection that stays open. A client library takes ten times as long, and longer than the server."""
    content = json.dumps(body).encode()
    head = [
        "POST /v1/check HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    writer.write("\r\n".join((*head, "", "")).encode() + content)
    answered = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(answered.partition("content-length: ")[2].partition("\r\n")[0])
    answer: dict[str, Any] = json.loads(await reader.readexactly(length))
    return answer


def test_attempts_of_one_session_at_the_same_moment_are_counted_one_by_one(tmp_path: Path) -> None:
    async def ask(url: str) -> Counter[str]:
        async with plain_http.async_client(timeout=60) as http:
            body = {"session_id": "s", "tool": "close", "args": {}}
            answers = await asyncio.gather(*(http.post(f"{url}/v1/check", json=body) for _ in range(50)))
            return Counter(answer.json()["action"] for answer in answers)

    with serving(tmp_path) as server:
        assert asyncio.run(ask(server.url)) == {"allow": 1, "terminate_session": 49}


def test_a_review_outlives_the_server_and_its_approval_works(tmp_path: Path) -> None:
    wire = {"session_id": "s", "tool": "wire", "call_id": "c1", "args": {"amount": 9000}}
    with serving(tmp_path) as server:
        paused = server.post("/v1/check", wire).json()
        assert (paused["action"], paused["reason"]) == ("pause", "A person looks at every wire.")
        server.kill()
    with serving(tmp_path) as server:
        [review] = server.get("/v1/reviews?status=open")["reviews"]
        assert (review["id"], review["arguments"]) == (paused["review"]["id"], {"amount": 9000})
        approved = server.post(f"/v1/reviews/{review['id']}/approve", {"by": "ada"})
        assert (approved.status_code, approved.json()["status"]) == (200, "approved")
        server.kill()
    with serving(tmp_path) as server:
        other = server.post("/v1/check", {**wire, "call_id": "c2", "args": {"amount": 9001}}).json()
        assert other["action"] == "pause"
        allowed = server.post("/v1/check", wire).json()
        assert (allowed["action"], allowed["reason"]) == ("allow", "approved by ada")
        again = server.post(f"/v1/reviews/{review['id']}/approve", {"by": "ada"})
        assert (again.status_code, again.json()["error"]) == (409, f"review {review['id']} is used already, by ada")


def test_a_session_that_was_ended_stays_ended_after_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        closes = [server.post("/v1/check", {"session_id": "s", "tool": "close"}).json() for _ in range(2)]
        assert [close["action"] for close in closes] == ["allow", "terminate_session"]
        server.kill()
    with serving(tmp_path) as server:
        assert server.post("/v1/check", {"session_id": "s", "tool": "read"}).json()["action"] == "terminate_session"
        assert server.post("/v1/check", {"session_id": "t", "tool": "read"}).json()["action"] == "allow"


def test_what_rules_remember_is_there_after_a_restart_with_a_checkpoint(tmp_path: Path) -> None:
    options = ("--checkpoint", str(tmp_path / "state.db"))
    with serving(tmp_path, *options) as server:
        assert server.post("/v1/check", {"session_id": "s", "tool": "confirm"}).json()["action"] == "allow"
    with serving(tmp_path, *options) as server:
        assert server.post("/v1/check", {"session_id": "s", "tool": "refund"}).json()["action"] == "allow"
        assert server.post("/v1/check", {"session_id": "t", "tool": "refund"}).json()["action"] == "block"


def test_the_command_line_answers_reviews_and_verifies_the_audit_of_a_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        first = server.post("/v1/check", {"session_id": "s", "tool": "wire", "args": {"n": 1}}).json()["review"]
        second = server.post("/v1/check", {"session_id": "s", "tool": "wire", "args": {"n": 2}}).json()["review"]
        listed = json.loads(command(tmp_path, "reviews", "list", "--format", "json").stdout)
        assert {one["id"] for one in listed} == {first["id"], second["id"]}
        command(tmp_path, "reviews", "approve", first["id"], "--by", "ada")
        command(tmp_path, "reviews", "reject", second["id"], "--by", "bob", "--note", "no")
        answers = [server.post("/v1/check", {"session_id": "s", "tool": "wire", "args": {"n": n}}) for n in (1, 2)]
        assert [answer.json()["action"] for answer in answers] == ["allow", "block"]
        [incident] = server.get("/v1/incidents")["incidents"]
        # Who asks without an id asks anew, and is found anew; the answer that is there solves that too.
        assert (incident["rule_id"], incident["findings"], incident["status"]) == ("ask", 4, "solved")
        assert server.get(f"/v1/incidents/{incident['id']}")["timeline"][-1]["what"] == "solved"
    head = command(tmp_path, "audit", "verify").stdout.strip()
    assert command(tmp_path, "audit", "verify", "--head", head).returncode == 0
    change_the_audit(tmp_path / "history.db")
    changed = command(tmp_path, "audit", "verify", code=1)
    assert "record 3 was changed" in changed.stderr


def change_the_audit(file: Path) -> None:
    database = sqlite3.connect(file)
    with database:
        [(number,)] = database.execute("SELECT min(number) FROM sg_audit WHERE instr(body, '\"wire\"')").fetchall()
        database.execute("UPDATE sg_audit SET body = replace(body, 'wire', 'read') WHERE number = ?", (number,))
    database.close()


def command(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = processes.run(*words, "--history", folder / "history.db", text=True)
    assert done.returncode == code, done.stderr
    return done


def test_events_are_judged_and_open_alerts_that_hold_nothing_back(tmp_path: Path) -> None:
    with serving(tmp_path, "--alerts", f"jsonl:{tmp_path / 'alerts.jsonl'}") as server:
        events = [
            {"kind": "tool_call", "session_id": "s", "event_id": "e1", "tool": "refund", "call_id": "c1"},
            {"kind": "tool_result", "session_id": "s", "event_id": "e2", "call_id": "c1", "status": "ok"},
            {"kind": "nonsense"},
        ]
        told = server.post("/v1/events", {"events": events}).json()
        assert (told["accepted"], [alert["rule_id"] for alert in told["alerts"]]) == (2, ["confirm-first"])
        assert [one["number"] for one in told["refused"]] == [2]
        [review] = server.get("/v1/reviews")["reviews"]
        assert (review["kind"], review["rule_ids"]) == ("anomaly_alert", ["confirm-first"])
        seen = server.post(f"/v1/reviews/{review['id']}/acknowledge", {"by": "ada"})
        assert seen.json()["status"] == "acknowledged"
    [alert] = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert alert["rule_id"] == "confirm-first"


@contextmanager
def busy(file: Path) -> Iterator[None]:
    """Keep the history from being written, as a backup of it might."""
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        database.close()


WIRE = {"session_id": "s", "tool": "wire", "call_id": "c1", "args": {}}


def test_a_check_over_its_budget_is_blocked_and_counted_and_judged_when_asked_again(tmp_path: Path) -> None:
    with serving(tmp_path, STREAM_GUARD_API__BUDGET="0.2") as server:
        with busy(tmp_path / "history.db"):
            late = server.post("/v1/check", WIRE).json()
        assert (late["action"], late["judged"]) == ("block", False)
        assert late["reason"] == "not judged: no answer within 0.2 seconds"
        assert 'stream_guard_gate_failures_total{got="closed"} 1.0' in metrics_of(server)
        assert server.get("/v1/reviews")["reviews"]  # asked behind the one that was late: that is judged by now
        assert server.post("/v1/check", WIRE).json()["action"] == "pause"


def test_failing_open_is_counted_and_alerted_and_never_passes_a_rule_that_stops(tmp_path: Path) -> None:
    alerts = tmp_path / "alerts.jsonl"
    variables = {"STREAM_GUARD_API__BUDGET": "0.000001", "STREAM_GUARD_API__ON_ERROR": "open"}
    with serving(tmp_path, "--alerts", f"jsonl:{alerts}", **variables) as server:
        late = server.post("/v1/check", {"session_id": "s", "tool": "read"}).json()
        assert (late["action"], late["judged"]) == ("allow", False)
        assert server.post("/v1/check", WIRE).json()["action"] in ("pause", "block")
        assert 'stream_guard_gate_failures_total{got="open"} 1.0' in metrics_of(server)
    sent = [json.loads(line) for line in alerts.read_text().splitlines()]
    assert ("stream_guard_fail_open", "critical") in [(alert["rule_id"], alert["severity"]) for alert in sent]


def metrics_of(server: Running) -> str:
    return plain_http.get(f"{server.url}/metrics").text


BAD_BODIES = [
    (b"", 400, "not JSON"),
    (b"{", 400, "not JSON"),
    (b'{"session_id": "s", "session_id": "t", "tool": "x"}', 400, "not JSON that can be used"),
    (b"[" * 1999, 400, "not JSON"),
    (b"[]", 422, "send one object"),
    (b'{"tool": "x"}', 422, "session_id"),
    (b'{"session_id": "s"}', 422, "tool"),
    (b'{"session_id": "", "tool": "x"}', 422, "session_id"),
    (b'{"session_id": "\\u0000s", "tool": "x"}', 422, "session_id"),
    (b'{"session_id": "s", "tool": "x", "kind": "turn"}', 422, "tool_call"),
    (b'{"session_id": "s", "tool": "x", "time": 1e300}', 422, "time"),
    (b'{"session_id": "s", "tool": "x", "args": "' + b"a" * 3000 + b'"}', 413, "more than 2000 bytes"),
]


def test_bad_bodies_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with serving(tmp_path, STREAM_GUARD_API__MAX_BODY_BYTES="2000") as server:
        for body, status, text in BAD_BODIES:
            answer = plain_http.post(
                f"{server.url}/v1/check", content=body, headers={"content-type": "application/json"}
            )
            assert (answer.status_code, text in answer.json()["error"]) == (status, True), (body[:60], answer.text)
        plain = plain_http.post(f"{server.url}/v1/check", content=b"{}")
        assert plain.status_code == 415


@pytest.mark.long
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        tool = [str(Path(sys.executable).parent / "st"), "run", f"{server.url}/openapi.json"]
        options = ["--phases", "coverage,fuzzing", "--max-examples", "5", "--seed", "4", "--no-color"]
        done = subprocess.run([*tool, *options], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "12 selected / 12 total" in done.stdout


def test_a_page_under_another_name_cannot_ask(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        answer = server.post("/v1/check", {"session_id": "s", "tool": "read"}, host="evil.example")
        assert answer.status_code == 403


def test_with_a_token_only_those_who_show_it_are_answered(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    body = {"session_id": "s", "tool": "read"}
    with serving(tmp_path, STREAM_GUARD_API__TOKEN_FILE=str(tmp_path / "token")) as server:
        codes = [
            server.post("/v1/check", body, authorization=shown).status_code
            for shown in ("", "Bearer wrong", "Basic a-token-of-some-length", "Bearer a-token-of-some-length")
        ]
        assert codes == [401, 401, 401, 200]
        assert plain_http.get(f"{server.url}/healthz").status_code == 200


def test_a_probe_tells_a_gate_from_none(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    with serving(tmp_path, STREAM_GUARD_API__TOKEN_FILE=str(tmp_path / "token")) as server:
        assert probe(server.url, "a-token-of-some-length") == ""
        assert probe(server.url).startswith("the server answered 401")
    assert probe(server.url).startswith("the server did not answer")
    sys.modules["a_module_of_the_agents"] = module = ModuleType("a_module_of_the_agents")
    vars(module)["gate"] = Guard(Policy(rules=(), version=""))
    assert probe("a_module_of_the_agents:gate") == "the probe was not blocked: allow"
    assert doctor(server.url).returncode == 1
    with serving(tmp_path) as server:
        assert "blocked the probe" in doctor(server.url).stdout


def doctor(url: str) -> subprocess.CompletedProcess[str]:
    return processes.run("doctor", "--probe", url, "--format", "json", text=True)


def test_other_machines_are_not_let_in_without_a_token(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    words = ["serve", "--policy", str(tmp_path / "policy.yaml"), "--host", "0.0.0.0", "--port", "0"]
    refused = command(tmp_path, *words, code=2)
    assert "api.host is '0.0.0.0', which other machines may reach" in refused.stderr
