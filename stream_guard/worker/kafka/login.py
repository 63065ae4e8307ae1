"""How the worker's clients log in, aiokafka's own and those that Faust makes."""

from __future__ import annotations

import asyncio
from typing import Any

import faust
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from stream_guard.errors import TokenError
from stream_guard.kafka.security import read_extensions, security_options
from stream_guard.kafka.tokens import token_keeper
from stream_guard.settings import KafkaSettings

_PROVIDER = "sasl_oauth_token_provider"


class WorkerTokens(AbstractTokenProvider):  # type: ignore[misc]  # the client ships no types
    """Gives aiokafka the process's token. A new one is fetched in a thread: the loop goes on judging."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._keeper = token_keeper(kafka)
        self._extensions = read_extensions(kafka)

    async def token(self) -> str:
        """Return a token; the client tries again after an error."""
        fresh = self._keeper.fresh()
        if fresh is not None:
            return fresh
        try:
            return await asyncio.to_thread(self._keeper.token)
        except TokenError as error:
            raise KafkaConnectionError(str(error)) from None

    def extensions(self) -> dict[str, str]:
        """Return what is sent with the token."""
        return self._extensions


def login_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the security options of aiokafka's clients; SettingsError when a setting is missing."""
    options = security_options(kafka)
    if _PROVIDER in options:
        options[_PROVIDER] = WorkerTokens(kafka)
    return options


def faust_credentials(kafka: KafkaSettings) -> Any:
    """Return the same for Faust; None without security."""
    options = login_options(kafka)
    context = options.get("ssl_context")
    if _PROVIDER in options:
        return faust.OAuthCredentials(oauth_cb=options[_PROVIDER], ssl_context=context)
    if "sasl_mechanism" in options:
        return faust.SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            mechanism=options["sasl_mechanism"],
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context=context)
