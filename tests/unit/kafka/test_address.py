"""Addresses of topics say what they mean, or what is wrong with them."""

from __future__ import annotations

import pytest

from stream_guard.kafka.address import parse_address


def test_servers_topics_and_options_are_found() -> None:
    address = parse_address("kafka://a:9092,[::1]:9093/events,more.events_2?from=2026-01-05T08:00:00+01:00&to=a%20b")
    assert address.servers == ("a:9092", "[::1]:9093")
    assert address.topics == ("events", "more.events_2")
    assert address.options == {"from": "2026-01-05T08:00:00+01:00", "to": "a b"}
    assert str(address) == "kafka://a:9092,[::1]:9093/events,more.events_2"


@pytest.mark.parametrize(("text", "servers"), [("a:1/t", ("a:1",)), ("t", ()), ("/t", ()), ("kafka:///t", ())])
def test_the_scheme_and_the_servers_may_be_left_out(text: str, servers: tuple[str, ...]) -> None:
    address = parse_address(text)
    assert (address.servers, address.topics) == (servers, ("t",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kafka://a:9092", "the topic is missing"),
        ("kafka://a:9092/", "the topic is missing"),
        ("", "the topic is missing"),
        ("kafka://a:port/t", "'a:port' is no server"),
        ("kafka://a b/t", "'a b' is no server"),
        ("/some/folder/file", "is no server"),
        ("kafka://a/a topic", "'a topic' is no name of a topic"),
        ("kafka://a/..", "is no name of a topic"),
        ("kafka://a/t?from", "is not name=value"),
        ("kafka://a/t?from=1&from=2", "given twice"),
    ],
)
def test_what_is_no_address_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_address(text)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="holds no user and no password") as refused:
        parse_address("kafka://me:secret@a:9092/t")
    assert "secret" not in str(refused.value)
