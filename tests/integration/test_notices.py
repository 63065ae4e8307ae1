"""Somebody is told that a call waits: over a signed webhook, with a link that leads to the review on the page."""

from __future__ import annotations

import base64
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import plain_http, processes
from tests.http_end import HttpEnd
from tests.parts import import_part

POLICY = "rules: [{id: ask, kind: no_call, params: {tool: wire}, then: pause, reason: A person looks at every wire.}]"
SECRET = f"whsec_{base64.b64encode(b'a secret of thirty-two bytes....').decode()}"


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as made:
        yield made


@pytest.fixture
def server(tmp_path: Path, end: HttpEnd) -> Iterator[str]:
    """The address of a gate that tells a webhook, and whose page people reach under another name."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "secret").write_text(SECRET)
    route = {"TO": f"webhook:{end.url}/hook", "SECRET_FILE": str(tmp_path / "secret")}
    variables = {f"STREAM_GUARD_DELIVERY__ROUTES__ON_CALL__{key}": value for key, value in route.items()}
    variables["STREAM_GUARD_DELIVERY__PAGE_URL"] = "https://guard.example.com/"
    command = ["serve", "--policy", "policy.yaml", "--port", "0", "--history", "history.db"]
    process = processes.start(*command, stderr=subprocess.PIPE, text=True, env=variables, cwd=tmp_path)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        yield line.removeprefix("listening at ").strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_a_call_that_waits_and_its_incident_are_told_and_their_links_lead_to_them(server: str, end: HttpEnd) -> None:
    standard = import_part("standardwebhooks.webhooks")
    attempt = {"session_id": "s1", "event_id": "e1", "tool": "wire", "args": {"amount": 5}}
    answer = plain_http.post(f"{server}/v1/check", json=attempt).json()
    assert answer["action"] == "pause"
    assert end.wait_for(2)
    told: dict[str, Any] = {}
    for request in end.requests:
        body = standard.Webhook(SECRET).verify(request.body, request.headers)  # as the receiver's package does
        told[body["data"]["kind"]] = body["data"]
        for other in (request.body + b" ", request.body.replace(b"wire", b"wine")):
            with pytest.raises(standard.WebhookVerificationError):
                standard.Webhook(SECRET).verify(other, request.headers)
    assert told.keys() == {"no_call", "stream_guard_review"}
    review = told["stream_guard_review"]
    assert review["link"] == f"https://guard.example.com/reviews/{answer['review']['id']}"
    shown = follow(server, review["link"])
    assert "A person looks at every wire." in shown
    alert = follow(server, told["no_call"]["link"])
    [incident] = set(re.findall(r'href="(/incidents/[^"?]+)"', alert))
    assert "unresolved" in follow(server, incident)
    assert "/sessions/s1" in alert


def follow(server: str, link: str) -> str:
    """Return the page that a link leads to, at the server itself."""
    answer = plain_http.get(f"{server}{link.removeprefix('https://guard.example.com')}")
    assert answer.status_code == 200, (link, answer.text)
    return answer.text
