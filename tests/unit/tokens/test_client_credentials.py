"""Tokens of an endpoint over HTTPS: what is asked, and what is said where it gives none."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import parse_qs

import pytest
from stream_guard_tokens.client_credentials import ClientCredentials

from stream_guard.errors import SettingsError, TokenError
from stream_guard.settings import KafkaSettings
from tests.http_end import HttpEnd, Reply
from tests.kafka import certificates
from tests.kafka.certificates import Certificates, make_certificates
from tests.parts import require

ID, SECRET = "guard:1", "canary 0a+1b&2c=3d"
TOKEN = Reply(body=b'{"access_token": "abc.def", "token_type": "Bearer", "expires_in": 300, "scope": "kafka"}')


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    require(not certificates.missing_part(), certificates.missing_part())
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def end(files: Certificates) -> Iterator[HttpEnd]:
    with HttpEnd(files.broker) as made:
        made.reply = TOKEN
        yield made


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def source(url: str, files: Certificates | None = None, **changes: Any) -> ClientCredentials:
    known = {"oauth_url": url, "oauth_client_id": ID, "oauth_client_secret": SECRET, "oauth_timeout": 20.0}
    trusted = {"oauth_ca_file": files.authority} if files else {}
    return ClientCredentials.open(KafkaSettings.model_validate(known | trusted | changes))


def test_the_id_and_the_secret_are_shown_in_the_header(end: HttpEnd, files: Certificates) -> None:
    token = source(f"{end.url}/token?tenant=1", files, oauth_scope="kafka all").fetch()
    assert token.text == "abc.def"
    (request,) = end.requests
    assert request.path == "/token?tenant=1"
    assert parse_qs(request.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["kafka all"]}
    kind, _, pair = request.headers["authorization"].partition(" ")
    # RFC 6749, section 2.3.1: both are encoded as in a form, so that a colon in the id is not the one between them.
    assert (kind, base64.b64decode(pair)) == ("Basic", b"guard%3A1:canary+0a%2B1b%262c%3D3d")


def test_the_id_and_the_secret_are_shown_in_the_body(end: HttpEnd, files: Certificates) -> None:
    source(end.url, files, oauth_client_login="body", oauth_audience="brokers").fetch()
    (request,) = end.requests
    assert "authorization" not in request.headers
    shown = {"client_id": [ID], "client_secret": [SECRET], "audience": ["brokers"]}
    assert parse_qs(request.body.decode()) == {"grant_type": ["client_credentials"], **shown}


def test_a_changed_secret_is_used_for_the_next_token(end: HttpEnd, files: Certificates, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("one\n")
    changes = {"oauth_client_secret": None, "oauth_client_secret_file": tmp_path / "secret"}
    asked = source(end.url, files, oauth_client_login="body", **changes)
    asked.fetch()
    (tmp_path / "secret").write_text("two")
    asked.fetch()
    assert [parse_qs(request.body.decode())["client_secret"] for request in end.requests] == [["one"], ["two"]]


@pytest.mark.parametrize(
    ("reply", "said", "retryable"),
    [
        (Reply(401, {}, b'{"error": "invalid_client"}'), r"answered with status 401 \(invalid_client\); check", False),
        (
            Reply(400, {}, json.dumps({"error": "invalid_scope", "error_description": f"not\nfor {SECRET}"}).encode()),
            r"status 400 \(invalid_scope: not for \[masked\]\); check .*kafka.oauth_scope",
            False,
        ),
        (Reply(403, {}, SECRET.encode()), "answered with status 403; check", False),
        (Reply(404, {}, b"[1]"), "answered with status 404; check", False),
        (Reply(429), "answered with status 429; look at the endpoint", True),
        (Reply(500), "answered with status 500; look at the endpoint", True),
        (Reply(200, {}, b"<html>"), "without an access_token of the type Bearer; check that kafka.oauth_url", False),
        (Reply(200, {}, b'{"access_token": 3}'), "without an access_token of the type Bearer", False),
        (Reply(200, {}, b'{"access_token": "a", "token_type": "mac"}'), "without an access_token of the type", False),
    ],
)
def test_an_endpoint_without_a_token_is_named_with_its_reason(
    end: HttpEnd, files: Certificates, reply: Reply, said: str, *, retryable: bool
) -> None:
    end.reply = reply
    with pytest.raises(TokenError, match=said) as failed:
        source(f"{end.url}/token?key=canary", files).fetch()
    text = str(failed.value)
    assert text.startswith(f"kafka.oauth_url: {end.url}/token ")
    assert "canary" not in text
    assert failed.value.retryable is retryable
    assert failed.value.__cause__ is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_gets_no_secret(end: HttpEnd, files: Certificates, status: int) -> None:
    with HttpEnd() as other:
        end.reply = Reply(status, {"location": f"{other.url}/token"})
        with pytest.raises(TokenError, match=f"status {status}, which is not followed; set kafka.oauth_url"):
            source(end.url, files).fetch()
        assert other.requests == []


def test_a_certificate_that_is_not_trusted_gets_no_secret(end: HttpEnd, files: Certificates) -> None:
    with pytest.raises(TokenError, match=r"certificate verify failed.*kafka.oauth_ca_file") as failed:
        source(end.url, files, oauth_ca_file=files.stranger).fetch()
    assert not failed.value.retryable
    assert end.requests == []


def test_an_endpoint_that_does_not_answer_is_given_up(end: HttpEnd, files: Certificates) -> None:
    end.held_by = Event()
    try:
        with pytest.raises(TokenError, match=r"did not answer within 0.3 s \(kafka.oauth_timeout\)") as failed:
            source(end.url, files, oauth_timeout=0.3).fetch()
    finally:
        end.held_by.set()
    assert failed.value.retryable


def test_an_address_where_nobody_listens_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/token"
        with pytest.raises(TokenError, match=f"{re.escape(url)} cannot be reached: .*refused; check") as failed:
            source(url).fetch()
    assert failed.value.retryable


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"oauth_url": ""}, "needs kafka.oauth_url"),
        ({"oauth_client_id": ""}, "needs kafka.oauth_client_id"),
        ({"oauth_client_secret": None}, "needs kafka.oauth_client_secret_file or kafka.oauth_client_secret"),
        ({"oauth_client_secret_file": "/no/such"}, "kafka.oauth_client_secret_file: /no/such cannot be read: No such"),
        ({"oauth_ca_file": "/no/such"}, "kafka.oauth_ca_file: /no/such is not a file"),
        *(
            ({"oauth_url": url}, "kafka.oauth_url: write https://host/path")
            for url in (
                "http://id.example/token",
                "https://u:canary@h/t",
                "ftp://h/",
                "https://h:canary/",
                "https:///x",
            )
        ),
    ],
)
def test_a_setting_that_is_missing_or_unsafe_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        source("https://id.example/token", **changes)
    assert "canary" not in str(refused.value)
