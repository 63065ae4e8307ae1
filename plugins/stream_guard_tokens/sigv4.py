"""AWS Signature Version 4: an address that carries the signature of its request."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote

NO_BODY: Final = sha256(b"").hexdigest()
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class AwsCredentials(NamedTuple):
    """Who signs."""

    key: str
    secret: str
    session: str = ""  # of credentials that expire

    def __repr__(self) -> str:
        return f"AwsCredentials(key={self.key!r})"


class AwsScope(NamedTuple):
    """What a signature is good for."""

    region: str
    service: str
    time: float
    seconds: int


def presign(
    address: tuple[str, str],
    query: Mapping[str, str],
    credentials: AwsCredentials,
    scope: AwsScope,
    body: str = NO_BODY,
) -> str:
    """Return the address of a signed GET; ``address`` is the host and the path, ``body`` the digest of the body."""
    host, path = address
    at = datetime.fromtimestamp(scope.time, UTC)
    day, second = at.strftime("%Y%m%d"), at.strftime("%Y%m%dT%H%M%SZ")
    place = f"{day}/{scope.region}/{scope.service}/aws4_request"
    fields = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.key}/{place}",
        "X-Amz-Date": second,
        "X-Amz-Expires": str(scope.seconds),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session:
        fields["X-Amz-Security-Token"] = credentials.session
    quoted = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in fields.items())
    asked = "&".join(f"{name}={value}" for name, value in quoted)
    request = "\n".join(("GET", path, asked, f"host:{host}", "", "host", body))
    text = "\n".join((_ALGORITHM, second, place, sha256(request.encode()).hexdigest()))
    key = f"AWS4{credentials.secret}".encode()
    for part in (*place.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return f"https://{host}{path}?{asked}&X-Amz-Signature={key.hex()}"
