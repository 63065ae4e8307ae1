"""Secrets that clients sign with, each under the label that a signature names it by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from stream_guard.errors import SettingsError
from stream_guard.serve.acs.envelope import KEY_ID, Envelope, is_signed, key_id_of, session_key, sign

_SHORTEST: Final = 16  # bytes of a secret
_AFTER: Final = b"\r\n\t "  # what editors put after a secret, and clients take off


class AcsSecrets:
    """Checks and signs envelopes. A label that is not known is no reason to try another secret."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        self._secrets = secrets

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def has_signed(self, asked: Envelope, session_id: str) -> bool:
        """Whether a request has a signature with the secret that it names."""
        secret = self._secrets.get(key_id_of(asked))
        return secret is not None and is_signed(asked, session_key(secret, session_id))

    def sign(self, answer: Envelope, asked: Envelope, session_id: str) -> Envelope:
        """Return the answer, signed with the secret that the request named; the first one where it named none."""
        named = key_id_of(asked)
        label = named if named in self._secrets else next(iter(self._secrets))
        return sign(answer, session_key(self._secrets[label], session_id), label)


def read_secrets(place: Path | None) -> AcsSecrets:
    """Return the secret of a file, or those of a folder, where the name of a file is the label of its secret."""
    if place is None:
        return AcsSecrets({})
    try:
        files = {KEY_ID: place}
        if place.is_dir():
            files = {file.name: file for file in sorted(place.iterdir()) if file.is_file() and file.name[0] != "."}
        secrets = {label: file.read_bytes().rstrip(_AFTER) for label, file in files.items()}
    except OSError as error:
        raise SettingsError(f"{place}: the secret of ACS cannot be read: {error.strerror}") from None
    if not secrets:
        raise SettingsError(f"{place}: there is no secret of ACS; put one into a file, whose name is its label")
    for label, secret in secrets.items():
        if len(secret) < _SHORTEST:
            raise SettingsError(f"{files[label]}: a secret of ACS needs {_SHORTEST} bytes or more")
    return AcsSecrets(secrets)
