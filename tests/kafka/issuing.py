"""Tokens as an identity provider gives them: signed with a key of the test run, and over HTTPS."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.http_end import HttpEnd, Reply

AUDIENCE = "stream-guard-tests"
KEY_ID = "issuer"


def write_keys(key: Path, file: Path) -> None:
    """Write the public half of a key as a JSON Web Key Set."""
    said = subprocess.run(
        ["openssl", "rsa", "-in", str(key), "-noout", "-modulus"], check=True, capture_output=True, text=True
    )
    modulus = bytes.fromhex(said.stdout.strip().removeprefix("Modulus="))
    public = {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256", "n": encode(modulus), "e": "AQAB"}
    file.write_text(json.dumps({"keys": [public]}))


def issue(key: Path, *, seconds: float = 300.0, **claims: Any) -> str:
    """Return a token that is valid for so long from now on."""
    now = int(time.time())
    known = {"sub": "guard", "aud": AUDIENCE, "scope": "kafka", "iat": now, "exp": now + int(seconds)} | claims
    header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
    text = ".".join(encode(json.dumps(part).encode()) for part in (header, known))
    signed = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", str(key)], input=text.encode(), check=True, capture_output=True
    )
    return f"{text}.{encode(signed.stdout)}"


def encode(data: bytes) -> str:
    """Return base64 as tokens have it."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class TokenEnd(HttpEnd):
    """An endpoint for tokens, which are valid for so many seconds; each is another one."""

    def __init__(self, key: Path, certificate: Path | None = None, *, seconds: int = 300) -> None:
        super().__init__(certificate)
        self._key = key
        self.seconds = seconds

    def next_reply(self) -> Reply:
        """Return a new token, unless other answers are set."""
        if self.replies:
            return super().next_reply()
        token = issue(self._key, seconds=self.seconds, jti=str(len(self.requests)))
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds}
        return Reply(body=json.dumps(answer).encode())
