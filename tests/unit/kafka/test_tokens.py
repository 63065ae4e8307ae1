"""The keeper renews tokens before they expire, goes on with a valid one, and shows none."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, Self

import pytest

import stream_guard as sg
from stream_guard.errors import SettingsError, TokenError
from stream_guard.kafka.tokens import LONGEST, PAUSE, UNKNOWN, USED, TokenKeeper, token_keeper
from stream_guard.settings import KafkaSettings, Settings
from tests.kafka.issuing import encode

SECRET = "canary-0a1b2c3d"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Script(sg.TokenSource):
    """Gives tokens with numbers, valid for ``seconds``; or raises what it is told to."""

    def __init__(self, clock: Clock, seconds: float | None = 100.0) -> None:
        self.clock = clock
        self.seconds = seconds
        self.fetched = 0
        self.error: Exception | None = None
        self.make: Callable[[str], str] = str

    @classmethod
    def open(cls, settings: Any) -> Self:
        raise NotImplementedError

    def fetch(self) -> sg.LoginToken:
        self.fetched += 1
        if self.error is not None:
            raise self.error
        text = self.make(f"{SECRET}-{self.fetched}")
        return sg.LoginToken(text, None if self.seconds is None else self.clock() + self.seconds)


class CheapScript(Script):
    cheap = True


@pytest.fixture
def clock() -> Clock:
    return Clock()


def keep(source: Script) -> TokenKeeper:
    return TokenKeeper(source, "kafka.oauth_source script", source.clock)


def test_a_token_is_used_until_a_fifth_of_its_time_is_left(clock: Clock) -> None:
    keeper = keep(Script(clock))
    assert keeper.fresh() is None
    assert keeper.token() == f"{SECRET}-1"
    clock.now += 100 * USED - 0.1
    assert keeper.token() == keeper.fresh() == f"{SECRET}-1"
    clock.now += 0.2
    assert keeper.fresh() is None
    assert keeper.token() == f"{SECRET}-2"


def test_a_token_without_a_time_is_kept_for_a_moment(clock: Clock) -> None:
    source = Script(clock, None)
    keeper = keep(source)
    assert keeper.token() == keeper.token()
    clock.now += UNKNOWN
    keeper.token()
    assert source.fetched == 2


def test_a_cheap_source_is_asked_every_time(clock: Clock) -> None:
    keeper = keep(CheapScript(clock))
    assert [keeper.token(), keeper.token()] == [f"{SECRET}-1", f"{SECRET}-2"]


def test_what_a_token_says_of_itself_counts_where_it_ends_sooner(clock: Clock) -> None:
    source = Script(clock, 1_000.0)
    source.make = lambda text: f"e30.{encode(json.dumps({'exp': clock() + 10}).encode())}.{text}"
    keeper = keep(source)
    keeper.token()
    clock.now += 9
    keeper.token()
    assert source.fetched == 2


def test_while_a_new_token_cannot_be_had_a_valid_one_is_used(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    source = Script(clock)
    keeper = keep(source)
    keeper.token()
    source.error = TokenError("the endpoint is away", retryable=True)
    clock.now += 90
    assert keeper.token() == f"{SECRET}-1"
    assert "the endpoint is away" in caplog.text
    assert keeper.failure is None
    clock.now += 11
    with pytest.raises(TokenError, match="the endpoint is away") as failed:
        keeper.token()
    assert failed.value.retryable
    assert str(keeper.failure) == "the endpoint is away"
    source.error = None
    clock.now += PAUSE
    assert keeper.token() == f"{SECRET}-{source.fetched}"
    assert keeper.failure is None
    assert SECRET not in caplog.text


def test_a_source_that_failed_is_left_alone_for_a_moment(clock: Clock) -> None:
    source = Script(clock)
    source.error = TokenError("no", retryable=False)
    keeper = keep(source)
    for _ in range(3):
        with pytest.raises(TokenError, match="no"):
            keeper.token()
    assert source.fetched == 1
    clock.now += PAUSE
    with pytest.raises(TokenError):
        keeper.token()
    assert source.fetched == 2


def test_a_token_that_has_expired_is_refused(clock: Clock) -> None:
    with pytest.raises(TokenError, match="expired 7 s ago; have it renewed, or set the clock"):
        keep(Script(clock, -7)).token()


@pytest.mark.parametrize("text", ["", "a b", "a\x01auth=Bearer b", "a\n", "é", "=", "x" * (LONGEST + 1)])
def test_what_is_no_token_is_refused_and_not_shown(text: str, clock: Clock) -> None:
    source = Script(clock)
    source.make = lambda _: text
    with pytest.raises(TokenError, match="what came is no token") as refused:
        keep(source).token()
    assert not refused.value.retryable
    assert not text or text not in str(refused.value)


def test_errors_of_a_plugin_are_named_and_not_quoted(clock: Clock) -> None:
    source = Script(clock)
    source.error = RuntimeError(f"secret={SECRET}")
    with pytest.raises(TokenError, match="failed with RuntimeError; look at that plugin") as failed:
        keep(source).token()
    assert SECRET not in str(failed.value)
    assert failed.value.__cause__ is None


def test_many_threads_fetch_one_token(clock: Clock) -> None:
    source, start = Script(clock), Barrier(8)
    keeper = keep(source)

    def ask() -> str:
        start.wait()
        return keeper.token()

    with ThreadPoolExecutor(8) as pool:
        assert {future.result() for future in [pool.submit(ask) for _ in range(8)]} == {f"{SECRET}-1"}
    assert source.fetched == 1


def test_a_token_does_not_show_itself() -> None:
    assert SECRET not in repr(sg.LoginToken(SECRET, 3.0)) + str(sg.LoginToken(SECRET))


def test_an_unknown_source_is_said_with_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match='no source "vault"; there are client_credentials, command, file, msk_iam'):
        token_keeper(KafkaSettings(oauth_source="vault"))
    with pytest.raises(SettingsError, match=r"OAUTHBEARER needs kafka\.oauth_source"):
        token_keeper(KafkaSettings())


def test_a_plugin_that_is_not_allowed_gives_no_token() -> None:
    settings = Settings.model_validate({"plugins": {"allow": ["rules"]}, "kafka": {"oauth_source": "file"}})
    with pytest.raises(SettingsError, match='no source "file"; there are none'):
        token_keeper(settings.kafka)


def test_clients_with_the_same_settings_share_a_keeper() -> None:
    first = KafkaSettings.model_validate({"oauth_source": "file", "oauth_token_file": "a"})
    assert token_keeper(first) is token_keeper(first.model_copy())
    assert token_keeper(first) is not token_keeper(first.model_copy(update={"oauth_token_file": "b"}))


@pytest.mark.parametrize("wrong", ["auth=x", "Auth=x", "a", "a1=x", "=x", "a=b\x01c=d"])
def test_an_extension_that_could_change_the_message_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="name=value"):
        KafkaSettings(oauth_extensions=(wrong,))


def test_secrets_of_the_settings_are_not_shown() -> None:
    kafka = KafkaSettings.model_validate(
        {"oauth_client_secret": SECRET, "oauth_command": f"get-token --secret {SECRET}", "sasl_password": SECRET}
    )
    assert SECRET not in repr(kafka) + str(kafka) + kafka.model_dump_json()
