"""What clients are told about security: who we are, and how connections are encrypted."""

from __future__ import annotations

from typing import Any

from stream_guard.errors import SettingsError, TokenError
from stream_guard.kafka.tls import RenewedContext
from stream_guard.kafka.tokens import TokenKeeper, token_keeper
from stream_guard.settings import KafkaSettings


def security_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the client's security options; SettingsError when a setting is missing."""
    options: dict[str, Any] = {"security_protocol": kafka.security_protocol}
    if kafka.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = kafka.sasl_mechanism
        if kafka.sasl_mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = _provide(token_keeper(kafka), read_extensions(kafka))
        else:
            if not kafka.sasl_username:
                raise SettingsError(f"kafka.security_protocol {kafka.security_protocol} needs kafka.sasl_username")
            options["sasl_plain_username"] = kafka.sasl_username
            options["sasl_plain_password"] = kafka.read_password()
    if kafka.security_protocol.endswith("SSL"):
        options["ssl_context"] = RenewedContext(kafka)
    return options


def read_extensions(kafka: KafkaSettings) -> dict[str, str]:
    """Return what is sent with a token, by name."""
    parts = (text.partition("=") for text in kafka.oauth_extensions)
    return {name: value for name, _, value in parts}


def login_failure(kafka: KafkaSettings) -> TokenError | None:
    """Return why there is no token to log in with, if that is so."""
    uses_tokens = kafka.security_protocol.startswith("SASL") and kafka.sasl_mechanism == "OAUTHBEARER"
    return token_keeper(kafka).failure if uses_tokens else None


def describe_login(kafka: KafkaSettings) -> str:
    """Return who logs in and how, for messages."""
    by_token = kafka.sasl_mechanism == "OAUTHBEARER"
    who = f"the bearer of a token from {kafka.oauth_source!r}" if by_token else repr(kafka.sasl_username)
    return f"{who} by {kafka.sasl_mechanism}"


def _provide(keeper: TokenKeeper, extensions: dict[str, str]) -> Any:
    from kafka.errors import KafkaConnectionError  # noqa: PLC0415  # an extra; see stream_guard.kafka.client
    from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415  # as above

    class ClientTokens(AbstractTokenProvider):  # type: ignore[misc]  # the client ships no types
        """Gives kafka-python the process's token."""

        def token(self) -> str:
            try:
                return keeper.token()
            except TokenError as error:
                # The client tries again after such an error; another kind would end its thread.
                raise KafkaConnectionError(str(error)) from None

        def extensions(self) -> dict[str, str]:
            return extensions

    return ClientTokens()
