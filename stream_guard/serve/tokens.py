"""Tokens: who a caller is, and in which role. The file holds their SHA-256, so that reading it lets nobody in.

A token is 256 random bits. What is hashed has no structure to guess, so a slow hash would add nothing.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from stream_guard.errors import SettingsError
from stream_guard.judge.model import resolved

Role: TypeAlias = Literal["agent", "reviewer", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TENANT_LABEL: Final = "tenant"
_logger = logging.getLogger(__name__)


@resolved
class TokenEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of the file: a token's owner, their one role, and the digest of the token."""

    name: str
    role: Role
    sha256: str
    tenant: str = ""
    agents: tuple[str, ...] = ()  # of an agent's token: whose attempts it may bring, beside its own name
    labels: dict[str, str] = {}  # of an agent's token: what its events have, whatever the caller says


def make_token() -> tuple[str, str]:
    """Return a new token and its digest; the token is shown once and kept nowhere."""
    token = f"sg_{secrets.token_urlsafe(32)}"
    return token, digest(token.encode())


def digest(token: bytes) -> str:
    """Return what the file keeps of a token."""
    return sha256(token).hexdigest()


def read_tokens(file: Path) -> list[TokenEntry]:
    """Return the entries of a file; SettingsError that names the line when one cannot be used."""
    try:
        mode = file.stat().st_mode
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise SettingsError(f"{file}: the tokens cannot be read: {error.strerror}") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingsError(
            f"{file}: other accounts may write the tokens, and so let themselves in; run: chmod 600 {file}"
        )
    entries = [_entry(line, f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    known: set[str] = set()
    for entry in entries:
        if entry.sha256 in known:
            raise SettingsError(f"{file}: the token of {entry.name!r} is there twice; remove one of the lines")
        known.add(entry.sha256)
    return entries


def write_tokens(file: Path, entries: Iterable[TokenEntry]) -> None:
    """Replace the file, all of it or nothing; it is for this account alone."""
    written = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
    new = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as opened:
            opened.write(written)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise SettingsError(f"{file}: the tokens cannot be written: {error.strerror}") from None


def check_entry(entry: TokenEntry, place: str) -> TokenEntry:
    """Return the entry, or raise SettingsError that says what is wrong with it."""
    problem = ""
    if not entry.name.strip() or len(entry.name) > 200 or not entry.name.isprintable():
        problem = "the name of a token's owner has 1 to 200 printable characters"
    elif entry.tenant and not _TENANT.fullmatch(entry.tenant):
        problem = (
            f"the tenant {entry.tenant[:70]!r} is no name; use up to 64 letters, digits, dots, dashes, underscores"
        )
    elif (entry.agents or entry.labels) and entry.role != "agent":
        problem = f"a {entry.role}'s token brings no attempts; leave agents and labels out"
    elif _TENANT_LABEL in entry.labels:
        problem = "the tenant of a token is no label of it; write tenant"
    elif len(entry.sha256) != 64 or set(entry.sha256) - set("0123456789abcdef"):
        problem = "sha256 is no digest; make tokens with: stream-guard tokens new"
    if problem:
        raise SettingsError(f"{place}: {problem}")
    return entry


def _entry(line: bytes, place: str) -> TokenEntry:
    try:
        entry = msgspec.json.decode(line, type=TokenEntry)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{place}: not a token's line: {error}; make them with: stream-guard tokens new") from None
    return check_entry(entry, place)


class TokenFile:
    """The tokens of a file, read again when it changes; a file that is no good any more changes nothing."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen = self._mark()
        self._use(read_tokens(file))
        if not self._entries:
            raise SettingsError(f"{file}: there is no token in it; make one with: stream-guard tokens new")

    @property
    def tenants(self) -> frozenset[str]:
        """Return the tenants of all tokens."""
        return self._tenants

    def find(self, token: bytes) -> TokenEntry | None:
        """Return whose token it is, or None."""
        # Looked up by a digest: how long that takes says nothing about a token.
        self._refresh()
        return self._entries.get(digest(token))

    def _refresh(self) -> None:
        mark = self._mark()
        if mark == self._seen:
            return
        self._seen = mark
        try:
            self._use(read_tokens(self._file))
        except SettingsError as error:
            _logger.error("the tokens stay as they were: %s", error)  # noqa: TRY400  (it says why)

    def _use(self, entries: list[TokenEntry]) -> None:
        self._entries = {entry.sha256: entry for entry in entries}
        self._tenants = frozenset(entry.tenant for entry in entries if entry.tenant)

    def _mark(self) -> tuple[int, int, int]:
        try:
            found = self._file.stat()
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_ino, found.st_size
