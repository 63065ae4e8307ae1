"""Who may do what over HTTP: identities, roles and tenants, asked of the application itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stream_guard.errors import SettingsError
from stream_guard.guard.gate import Gate
from stream_guard.history import chain
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Agents, Policy, PolicyAgent
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.serve.access import TokenDoor, open_door
from stream_guard.serve.app import make_app
from stream_guard.serve.service import Service
from stream_guard.serve.tokens import Role, TokenEntry, TokenFile, make_token, read_tokens, write_tokens
from stream_guard.settings import ApiSettings, Settings
from stream_guard.testing import rule_spec

REGISTRY = build_registry()
AGENTS = Agents({"bot": PolicyAgent(), "helper": PolicyAgent(parent="bot"), "stranger": PolicyAgent()})


class Api:
    """The application with a file of tokens, asked by name."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "tokens"
        self.tokens: dict[str, str] = {}
        self.entries: list[TokenEntry] = []
        for name, role, tenant in (
            ("bot", "agent", ""),
            ("ada", "reviewer", ""),
            ("op", "operator", ""),
            ("bot-a", "agent", "a"),
            ("bot-b", "agent", "b"),
            ("ann", "reviewer", "a"),
            ("ben", "reviewer", "b"),
            ("op-a", "operator", "a"),
        ):
            self.add(name, role, tenant)  # type: ignore[arg-type]  # the words of the table above
        self.database = SqliteDatabase(folder / "history.db")
        rule = rule_spec(REGISTRY.kinds["no_call"], {"tool": "pay"}, rule_id="ask", then=Action.PAUSE)
        self.service = Service(Gate(Policy(rules=(rule,), version="v", agents=AGENTS), self.database))
        decoder = Assembly(Settings(), REGISTRY).make_decoder("native")
        self.app = make_app(self.service, decoder, TokenDoor(TokenFile(self.file)))

    def add(self, name: str, role: Role, tenant: str = "") -> None:
        self.tokens[name], digest = make_token()
        self.entries.append(TokenEntry(name=name, role=role, tenant=tenant, sha256=digest))
        write_tokens(self.file, self.entries)

    def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            headers = {"Authorization": f"Bearer {self.tokens.get(who, 'nobody')}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers) as client:
                return await client.request(method, path, json=body)

        return asyncio.run(send())

    def check(self, who: str, **attempt: Any) -> httpx.Response:
        return self.ask(who, "POST", "/v1/check", {"session_id": "s", "tool": "pay", "args": {"n": 1}, **attempt})

    def paused(self, who: str, **attempt: Any) -> str:
        answer = self.check(who, **attempt).json()
        assert answer["action"] == "pause", answer
        review: str = answer["review"]["id"]
        return review

    def close(self) -> None:
        self.service.close()
        self.database.close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    yield made
    made.close()


ROUTES = {
    ("POST", "/v1/check"): {"agent"},
    ("POST", "/v1/events"): {"agent"},
    ("POST", "/v1/obligations"): {"agent"},
    ("POST", "/v1/hooks/claude-code"): {"agent"},
    ("POST", "/v1/ext_authz"): {"agent"},
    ("POST", "/v1/ext_authz/{path:path}"): {"agent"},
    ("POST", "/v1/docker_mcp/before"): {"agent"},
    ("POST", "/v1/docker_mcp/after"): {"agent"},
    ("GET", "/v1/reviews"): {"reviewer", "operator"},
    ("GET", "/v1/reviews/0"): {"reviewer", "operator"},
    ("POST", "/v1/reviews/0/approve"): {"reviewer"},
    ("POST", "/v1/reviews/0/reject"): {"reviewer"},
    ("POST", "/v1/reviews/0/acknowledge"): {"reviewer", "operator"},
    ("GET", "/v1/incidents"): {"reviewer", "operator"},
    ("GET", "/v1/incidents/0"): {"reviewer", "operator"},
    ("POST", "/v1/incidents/0/solve"): {"reviewer", "operator"},
    ("GET", "/metrics"): {"operator"},
    ("GET", "/openapi.json"): {"agent", "reviewer", "operator"},
}


def test_every_address_is_open_to_its_roles_and_to_nobody_else(api: Api) -> None:
    paths = {route.path.replace("{id}", "0").replace("{agent}", "claude-code") for route in api.app.routes}  # type: ignore[attr-defined]  # all are Route
    assert paths == {path for _, path in ROUTES} | {"/healthz", "/readyz"}
    for (method, path), roles in ROUTES.items():
        for who, role in (("bot", "agent"), ("ada", "reviewer"), ("op", "operator")):
            status = api.ask(who, method, path, {} if method == "POST" else None).status_code
            assert (status == 403) is (role not in roles), (method, path, role, status)
        assert api.ask("nobody", method, path).status_code == 401


def test_who_answers_is_who_the_token_says(api: Api) -> None:
    review = api.paused("bot")
    refused = api.ask("ada", "POST", f"/v1/reviews/{review}/approve", {"by": "bob"})
    assert (refused.status_code, "token of 'ada'" in refused.json()["error"]) == (403, True)
    approved = api.ask("ada", "POST", f"/v1/reviews/{review}/approve", {"note": "fine"}).json()
    assert (approved["by"], approved["via"], approved["status"]) == ("ada", "token", "approved")
    assert api.check("bot").json()["action"] == "allow"
    told = [record for record in chain.records(api.database) if record["what"] == "review_approved"]
    assert [(record["by"], record["via"]) for record in told] == [("ada", "token")]


def test_who_asked_cannot_approve_even_with_a_reviewers_token(api: Api) -> None:
    asks = api.tokens["bot"]
    api.add("bot", "reviewer")  # the other token of the same person
    api.tokens |= {"bot": asks, "bot as reviewer": api.tokens["bot"]}
    for attempt in ({}, {"agent": "helper", "args": {"n": 2}}):
        review = api.paused("bot", **attempt)
        refused = api.ask("bot as reviewer", "POST", f"/v1/reviews/{review}/approve", {})
        assert (refused.status_code, "asked for this" in refused.json()["error"]) == (409, True)
        assert api.ask("ada", "POST", f"/v1/reviews/{review}/approve", {}).status_code == 200


def test_an_agents_token_brings_its_own_attempts_only(api: Api) -> None:
    assert api.check("bot", agent="stranger").status_code == 403
    assert api.check("bot", agent="stranger", agent_path=["bot"]).status_code == 403
    for own in ("bot", "bot@3", "helper", "helper@1"):
        assert api.check("bot", agent=own).status_code == 200, own
    told = api.ask("bot", "POST", "/v1/events", {"events": [{"kind": "turn", "session_id": "s", "agent": "stranger"}]})
    assert (told.json()["accepted"], "token of 'bot'" in told.json()["refused"][0]["reason"]) == (0, True)


def test_tenants_do_not_meet(api: Api) -> None:
    review = api.paused("bot-a")
    assert api.ask("ben", "GET", f"/v1/reviews/{review}").status_code == 404
    assert api.ask("ben", "POST", f"/v1/reviews/{review}/approve", {}).status_code == 404
    assert api.ask("ben", "GET", "/v1/reviews").json()["reviews"] == []
    assert api.ask("ben", "GET", "/v1/incidents").json()["incidents"] == []
    [incident] = api.ask("ann", "GET", "/v1/incidents").json()["incidents"]
    assert api.ask("ben", "GET", f"/v1/incidents/{incident['id']}").status_code == 404
    assert api.ask("ben", "POST", f"/v1/incidents/{incident['id']}/solve", {}).status_code == 404
    assert api.ask("ann", "POST", f"/v1/reviews/{review}/approve", {}).status_code == 200
    assert api.check("bot-b").json()["action"] == "pause", (
        "an approval of a is none of b, in a session of the same name"
    )
    assert api.check("bot-a").json()["action"] == "allow"
    assert api.check("bot-a", labels={"tenant": "b"}).status_code == 403
    assert api.check("bot", session_id="a/s").status_code == 403
    assert api.ask("op-a", "GET", "/metrics").status_code == 403
    assert len(api.ask("ada", "GET", "/v1/reviews").json()["reviews"]) == 2, "a reviewer of no tenant sees all"


def test_a_token_that_is_taken_away_is_refused_from_then_on(api: Api) -> None:
    assert api.check("bot", tool="look").status_code == 200
    write_tokens(api.file, [entry for entry in api.entries if entry.name != "bot"])
    assert api.check("bot", tool="look").status_code == 401
    assert api.ask("ada", "GET", "/v1/reviews").status_code == 200
    api.file.write_text("nonsense")
    assert api.ask("ada", "GET", "/v1/reviews").status_code == 200, "a bad file changes nothing"


def test_the_file_keeps_no_token_and_is_for_its_owner_alone(api: Api) -> None:
    written = api.file.read_text()
    assert not [token for token in api.tokens.values() if token in written or token[3:] in written]
    assert api.file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "there is no token in it"),
        ("{}", "not a token's line"),
        ('{"name": "a", "role": "king", "sha256": "00"}', "tokens:1: not a token's line"),
        ('{"name": "a", "role": "agent", "sha256": "00"}', "sha256 is no digest"),
        (f'{{"name": "a", "role": "agent", "tenant": "x/y", "sha256": "{"0" * 64}"}}', "is no name"),
        (f'{{"name": " ", "role": "agent", "sha256": "{"0" * 64}"}}', "1 to 200 printable"),
        (f'{{"name": "a", "role": "reviewer", "agents": ["b"], "sha256": "{"0" * 64}"}}', "brings no attempts"),
        (f'{{"name": "a", "role": "agent", "sha256": "{"0" * 64}"}}\n' * 2, "is there twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_line(tmp_path: Path, written: str, message: str) -> None:
    (tmp_path / "tokens").write_text(written)
    with pytest.raises(SettingsError, match=message):
        open_door(ApiSettings(tokens_file=tmp_path / "tokens"))


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens", [TokenEntry(name="a", role="agent", sha256="0" * 64)])
    (tmp_path / "tokens").chmod(0o620)
    with pytest.raises(SettingsError, match="other accounts may write the tokens"):
        read_tokens(tmp_path / "tokens")


def test_without_tokens_a_warning_says_that_roles_are_not_separated() -> None:
    assert "everybody on this machine may check, approve and solve" in open_door(ApiSettings()).warning
    shared = ApiSettings.model_validate({"token": "a-token-of-some-length"})
    assert "whoever has the token may" in open_door(shared).warning


def test_one_token_and_a_file_of_tokens_exclude_each_other(tmp_path: Path) -> None:
    both = {"token": "a-token-of-some-length", "tokens_file": tmp_path / "tokens"}
    with pytest.raises(SettingsError, match=r"take api\.token and api\.token_file out"):
        open_door(ApiSettings.model_validate(both))
