"""Addresses of topics: ``kafka://host:port/topic``, with options after a question mark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

SCHEME: Final = "kafka://"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Address:
    """Some topics of one cluster; without servers, those of the settings are used."""

    servers: tuple[str, ...]
    topics: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{SCHEME}{','.join(self.servers)}/{','.join(self.topics)}"


def parse_address(text: str) -> Address:
    """Return the address of ``[kafka://][host:port,...]/topic,...[?name=value&...]``; ValueError for any other text.

    A plus sign is itself, as in a time with an offset; a space is written ``%20``.
    """
    place, _, query = text.removeprefix(SCHEME).partition("?")
    written, slash, names = place.rpartition("/")
    if not slash and text.startswith(SCHEME):
        raise ValueError(f"{text}: the topic is missing; write {SCHEME}host:port/topic")
    if "@" in written:
        raise ValueError(
            "an address holds no user and no password; set kafka.sasl_username and kafka.sasl_password_file"
        )
    servers = tuple(part for part in written.split(",") if part)
    topics = tuple(part for part in names.split(",") if part)
    for server in servers:
        if not _SERVER.fullmatch(server):
            raise ValueError(f"{text}: {server!r} is no server; write {SCHEME}host:port/topic")
    if not topics:
        raise ValueError(f"{text}: the topic is missing; write {SCHEME}host:port/topic")
    for topic in topics:
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise ValueError(f"{text}: {topic!r} is no name of a topic; it has letters, digits, dots, _ and - only")
    return Address(servers, topics, _parse_query(text, query))


def _parse_query(text: str, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        if not part:
            continue
        if not equals or name in options:
            raise ValueError(f"{text}: {part!r} is not name=value, or is given twice")
        options[name] = unquote(value)
    return options
