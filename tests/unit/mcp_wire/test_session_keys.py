from __future__ import annotations

import pytest

from stream_guard.errors import SettingsError
from stream_guard.mcp_wire.judge import META, SessionKeys

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
PARAMS = {"_meta": {META: "s1", "traceparent": PARENT}}
HEADERS = {"mcp-session-id": "m1", "authorization": "Bearer secret-token", "x-user": "ada"}


@pytest.mark.parametrize(
    ("order", "session", "by"),
    [
        ("meta", "s1", "meta"),
        ("mcp-session, meta", "mcp-session:m1", "mcp-session"),
        ("trace,meta", f"trace:{TRACE}", "trace"),
        ("header:X-User", "ada", "header:X-User"),
        ("header:X-Other,meta", "s1", "meta"),
    ],
)
def test_the_first_key_that_is_there_counts(order: str, session: str, by: str) -> None:
    assert SessionKeys(order).find(PARAMS, HEADERS) == (session, by, PARENT)


def test_credentials_are_a_key_that_does_not_show_them() -> None:
    keys = SessionKeys("principal")
    found = keys.find({}, HEADERS)
    assert found.id == keys.find(PARAMS, HEADERS).id != keys.find({}, {"authorization": "Bearer other"}).id
    assert "secret" not in found.id


def test_what_names_no_session_is_the_connection_and_says_so() -> None:
    keys = SessionKeys("meta,trace")
    broken = {"_meta": {META: 7, "traceparent": "00-zz-1-01"}}
    first, second = keys.find({}, {}), keys.find(broken, {})
    assert (first, first.by) == (second, "connection")
    assert first.id != SessionKeys("meta").find({}, {}).id


def test_a_session_that_is_said_at_the_start_goes_before_what_clients_say() -> None:
    assert SessionKeys(fixed="mine").find(PARAMS, HEADERS) == ("mine", "fixed", PARENT)


@pytest.mark.parametrize("order", ["", "user", "header:", "meta,,trace"])
def test_an_unknown_key_is_refused_with_advice(order: str) -> None:
    with pytest.raises(SettingsError, match="write some of meta"):
        SessionKeys(order)
