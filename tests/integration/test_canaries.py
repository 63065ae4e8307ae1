"""Planted secrets: those of settings come out nowhere, and what agents say comes out masked, wherever one looks."""

from __future__ import annotations

import base64
import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import plain_http, processes
from tests.http_end import HttpEnd, Reply

POLICY = """
rules:
  - {id: no-wipe, kind: no_call, params: {tool: wipe}, then: block, severity: critical}
  - {id: ask, kind: no_call, params: {tool: wire}, then: pause}
  - {id: same-key, kind: must_remain_consistent, params: {path: tool.args.key}}
  - {id: large, kind: tool_guard, params: {when: {arg_regex: {path: key, pattern: "."}}}}
  - {id: words, kind: forbidden_text, params: {pattern: "(?i)use .* now", tool: wipe, where: tool_args}}
"""
# Said by agents. Each has the form of a secret that is known by its form, or stands where secrets stand.
TOKENS = {
    "anthropic": "sk-ant-api03-" + "Ca9Na2Ry4Wx6Zv8Tq1Bn3Mk5Jh7Gf0" * 3,
    "github": "ghp_" + "cAnArY9xW7vU5tS3rQ1pO2nM4lK6jI8hG0fE",
    "aws": "AKIA" + "CANARYX7Q2M4N6P8",
    "password": "hunter2-canary-9f8e7d",
}
IN_SESSION = "glpat-" + "c4N4rYq7Wx2Zt9Bv5Mk1"
# Of the settings: in a file, in a variable, in an address.
SETTINGS = {name: f"canary-{name}-0a1b2c3d4e5f" for name in ("token", "address", "bearer", "sasl")}
SIGNING = base64.b64encode(b"canary-signing-secret-32-bytes-x").decode()


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as made:
        yield made


@pytest.fixture
def variables(tmp_path: Path, end: HttpEnd) -> dict[str, str]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "api-token").write_text(SETTINGS["token"])
    (tmp_path / "signing").write_text(f"whsec_{SIGNING}")
    routes = {
        "HOOK": {"TO": f"webhook:{end.url}/{SETTINGS['address']}", "SECRET_FILE": str(tmp_path / "signing")},
        "PAGER": {"TO": f"alertmanager:{end.url}", "TOKEN": SETTINGS["bearer"]},
    }
    given = {
        f"STREAM_GUARD_DELIVERY__ROUTES__{name}__{key}": value
        for name, route in routes.items()
        for key, value in route.items()
    }
    own = {
        "API__TOKEN_FILE": str(tmp_path / "api-token"),
        "KAFKA__SASL_PASSWORD": SETTINGS["sasl"],
        "LOG__LEVEL": "debug",
        "PAGE__PORT": "0",
        "HISTORY__URL": str(tmp_path / "history.db"),
        "DELIVERY__OUTBOX": str(tmp_path / "outbox.db"),
    }
    return given | {f"STREAM_GUARD_{name}": value for name, value in own.items()}


def said() -> list[dict[str, Any]]:
    """Events with a secret in every place that an agent, or whoever writes its events, can fill."""
    # The id of a session is what everything is found by: it is kept as it is, and masked where somebody sees it.
    named = {
        "session_id": f"s-{IN_SESSION}",
        "event_id": "e1",
        "time": time.time(),
        "kind": "tool_call",
        "tool": "wipe",
    }
    events: list[dict[str, Any]] = [named]
    for name, token in TOKENS.items():
        shown = f"password={token}" if name == "password" else token
        args = {"key": shown, "deep": [{"note": f"use {shown} now"}], "password": token, "amount": 9}
        header = {"session_id": f"s-{name}", "time": time.time(), "agent": f"bot {shown}", "labels": {"note": shown}}
        events += [
            {**header, "kind": "user_message", "event_id": f"{name}-1", "content": f"my key is {shown}"},
            {**header, "kind": "tool_call", "event_id": f"{name}-2 {shown}", "tool": "wipe", "args": args},
            {**header, "kind": "tool_result", "event_id": f"{name}-3", "tool": "wipe", "result": {"token": shown}},
            {**header, "kind": "tool_call", "event_id": f"{name}-4", "tool": "wipe", "args": f'{{"key": "{shown}"'},
        ]
    return events


def unreadable() -> list[str]:
    """Records that become dead letters, each with a secret where the reason might quote it."""
    token = TOKENS["anthropic"]
    return [
        json.dumps({"kind": token, "session_id": "s", "event_id": "x1"}),
        json.dumps({"kind": "tool_call", "session_id": {"key": token}, "event_id": "x2", "tool": "t"}),
        json.dumps({"kind": "tool_call", "session_id": "s", "event_id": "x3", "tool": [token]}),
        json.dumps({"kind": "tool_call", "session_id": "s", "event_id": "x4", "tool": "t", "time": token}),
        json.dumps({"kind": "tool_call", "session_id": "s", "event_id": "x5", "tool": "t", token: token}),
        f'{{"kind": "user_message", "content": "{token}", "content": "{token}", "session_id": "s"}}',
        f'{{"kind": "user_message", "content": "{token}',
        token,
    ]


def find_canaries(text: str) -> set[str]:
    """Return the secrets that stand in a text, whole or without their first characters."""
    everything = {**TOKENS, **SETTINGS, "signing": SIGNING}
    return {name for name, secret in everything.items() if secret in text or secret[8:] in text}


def test_no_secret_comes_out_of_a_run(tmp_path: Path, variables: dict[str, str], end: HttpEnd) -> None:
    lines = [*map(json.dumps, said()), *unreadable()]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n")
    end.replies = [Reply(503)] * 2  # what fails is logged
    command = ["run", "events.jsonl", "--policy", "policy.yaml", "--checkpoint", "progress.db", "--page", "--follow"]
    command += ["--dead-letters", "dead.jsonl", "-a", "jsonl:alerts.jsonl", "-a", "console"]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = processes.start(*command, cwd=tmp_path, env=variables, stdout=out, stderr=err)
        try:
            while len(told_of(end)) <= len(TOKENS):
                assert process.poll() is None, (tmp_path / "err").read_text()
                assert end.wait_for(len(end.requests) + 1, 60)
            pages = visited(tmp_path)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert find_canaries(pages) == set()
    assert IN_SESSION not in pages
    assert "wipe" in pages
    log = (tmp_path / "err").read_text()
    reasons = [json.loads(line)["reason"] for line in (tmp_path / "dead.jsonl").read_text().splitlines()]
    assert len(reasons) >= 6
    assert f"{len(reasons)} dead letters" in log
    assert find_canaries(log) == set()
    for name in ("out", "alerts.jsonl", "outbox.db", "history.db"):
        assert find_canaries((tmp_path / name).read_text("latin-1")) == set(), name
    assert find_canaries(" ".join(reasons)) == set()
    # A dead letter has the record as it came, so that it can be read again: for the account of the process alone.
    assert (tmp_path / "dead.jsonl").stat().st_mode & 0o077 == 0
    sent = [*(request.body.decode() for request in end.requests), *(str(request.headers) for request in end.requests)]
    assert find_canaries(" ".join(sent)) == {"bearer"}  # which is what the receiver is shown
    assert IN_SESSION not in " ".join(sent)
    check_commands(tmp_path, variables)


def test_no_secret_comes_out_of_a_server(tmp_path: Path, variables: dict[str, str], end: HttpEnd) -> None:
    command = ["serve", "--policy", "policy.yaml", "--port", "0", "-a", "jsonl:alerts.jsonl"]
    with (tmp_path / "err").open("wb") as err:
        process = processes.start(*command, cwd=tmp_path, env=variables, stdout=err, stderr=err)
        try:
            while not (found := re.search(r"listening at (\S+)", (tmp_path / "err").read_text())):
                assert process.poll() is None, (tmp_path / "err").read_text()
                time.sleep(0.05)
            answers = asked(found[1])
            assert end.wait_for(len(TOKENS))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert answers.count('"block"') >= len(TOKENS)
    assert find_canaries(answers) == set()
    for name in ("err", "alerts.jsonl"):
        assert find_canaries((tmp_path / name).read_text()) == set(), name
    check_commands(tmp_path, variables)


def asked(url: str) -> str:
    """Attempt what is blocked and what waits for a person; return what is said of the first, and the metrics.

    A review has the attempt as it will run, because a person decides about that.
    """
    headers, texts = {"authorization": f"Bearer {SETTINGS['token']}"}, list[str]()
    with plain_http.client(base_url=url, headers=headers, timeout=30) as gate:
        for event in [one for one in said()[1:] if one["kind"] == "tool_call"]:
            for tool in ("wipe", "wire"):
                attempt = {name: event[name] for name in ("session_id", "agent", "args")}
                attempt |= {"tool": tool, "event_id": f"{event['event_id']} {tool}"}
                answer = gate.post("/v1/check", json=attempt).json()
                assert answer.get("review") or tool == "wipe"
                texts.append(json.dumps({**answer, "review": None}))
        texts.append(gate.get("/metrics").text)
    return "".join(texts)


def told_of(end: HttpEnd) -> set[str]:
    bodies = [request.json for request in list(end.requests) if SETTINGS["address"] in request.path]
    return {body["data"]["session_id"] for body in bodies if body["data"]["rule_id"] == "no-wipe"}


def visited(folder: Path) -> str:
    """Return all that somebody with a token sees: every page that a link leads to, and the metrics."""
    log = (folder / "err").read_text()
    [page] = re.findall(r"page at (http://[^/]+)/", log)
    [metrics] = re.findall(r"metrics at (http://\S+)", log)
    headers = {"authorization": f"Bearer {SETTINGS['token']}"}
    ways, seen, texts = ["/", "/activity", "/policy"], set[str](), [plain_http.get(metrics).text]
    with plain_http.client(base_url=page, headers=headers, timeout=30) as client:
        while ways and len(seen) < 150:
            way = ways.pop(0)
            if way in seen or way.startswith(("/static", "/sign-")):
                continue
            seen.add(way)
            text = client.get(way).text
            texts.append(text)
            ways += [found.replace("&amp;", "&") for found in re.findall(r'href="(/[^"#]*)', text)]
    assert len(seen) > 20
    return "".join(texts)


def check_commands(folder: Path, variables: dict[str, str]) -> None:
    """Hold what commands print, and what they export, to the same."""
    commands = [
        ["config", "show"],
        ["config", "show", "--format", "json"],
        ["evidence", "export", "--since", "2020-01-01", "--history", "history.db", "-o", "evidence.jsonl"],
        ["incidents", "list", "--history", "history.db", "--format", "json"],
        ["outbox", "list", "--state", "active"],
    ]
    for command in commands:
        done = processes.run(*command, cwd=folder, env=variables)
        assert done.returncode == 0, (command, done.stderr.decode())
        assert find_canaries((done.stdout + done.stderr).decode()) == set(), command
    evidence = (folder / "evidence.jsonl").read_text()
    assert "no-wipe" in evidence
    assert find_canaries(evidence) == set()
