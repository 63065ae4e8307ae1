"""The worker's clients of the brokers, aiokafka's own and those that Faust makes, and how they log in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import aiokafka
import faust
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError, KafkaError

from stream_guard.errors import SourceError, TokenError
from stream_guard.kafka.client import NAME
from stream_guard.kafka.security import login_failure, read_extensions, security_options
from stream_guard.kafka.tokens import token_keeper
from stream_guard.settings import KafkaSettings, Settings
from stream_guard.worker.rows import ROOM, most_bytes

REQUEST_MS: Final = 15_000  # how long one request may take
_PROVIDER: Final = "sasl_oauth_token_provider"


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


def make_consumer(
    servers: Sequence[str], kafka: KafkaSettings, *, reset: str = "none", group: str | None = None
) -> Any:
    """Return a consumer of committed records, not started, that commits nothing by itself.

    ``reset``: where it begins when its offset is not there. Without a group it says itself which partitions it reads.
    """
    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=list(servers),
        client_id=NAME,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset=reset,
        isolation_level="read_committed",
        **login_options(kafka),
    )


async def connect(servers: Sequence[str], settings: Settings) -> Any:
    """Return a started producer; wait for the broker for at most ``kafka.patience`` seconds."""
    end = time.monotonic() + settings.kafka.patience
    while True:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=list(servers),
            client_id=NAME,
            acks="all",
            enable_idempotence=True,
            linger_ms=2,
            max_batch_size=256 * 1024,
            max_request_size=max(64 * 2**20, most_bytes(settings) + ROOM),
            # A broker answers the requests of a connection one after the other. Behind a write that waits for replicas
            # it would not say for longer that it is there.
            request_timeout_ms=REQUEST_MS,
            **login_options(settings.kafka),
        )
        try:
            await producer.start()
        except KafkaError as error:
            with suppress(KafkaError):
                await producer.stop()
            missing = login_failure(settings.kafka)
            if time.monotonic() >= end or (missing is not None and not missing.retryable):
                where = ",".join(servers)
                if missing is not None:
                    raise SourceError(f"{where}: there is no token to log in with: {missing}") from error
                raise SourceError(f"{where}: no broker answers: {error}; check the address and the network") from error
            await asyncio.sleep(1.0)
        else:
            # A partition without a leader is waited for as long as a broker. The client has one time limit for both.
            producer._message_accumulator._batch_ttl = max(40.0, settings.kafka.patience)  # noqa: SLF001  # as said
            return producer
