"""Tokens for Amazon MSK with IAM: a request that AWS's credentials have signed, in base64."""

from __future__ import annotations

import base64
import hmac
import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

import stream_guard as sg

_SECONDS: Final = 900  # the longest that MSK takes
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")


class MskIam(sg.TokenSource):
    """Signs with the credentials in the variables of AWS, or with those that botocore finds: profiles and roles."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._session: Any = None  # botocore's

    @classmethod
    def open(cls, settings: Any) -> Self:
        """Return the source for ``kafka.oauth_region``, or the region in the variables of AWS."""
        region = settings.oauth_region or os.environ.get("AWS_REGION", "") or os.environ.get("AWS_DEFAULT_REGION", "")
        if not _REGION.fullmatch(region):
            raise sg.SettingsError("kafka.oauth_source msk_iam needs the cluster's region: set kafka.oauth_region")
        return cls(region)

    def fetch(self) -> sg.LoginToken:
        """Return a token; credentials that expire are looked up anew."""
        now = time.time()
        scope = AwsScope(self._region, "kafka-cluster", now, _SECONDS)
        host = f"kafka.{self._region}.amazonaws.com"
        signed = presign((host, "/"), {"Action": "kafka-cluster:Connect"}, self._credentials(), scope)
        named = f"{signed}&User-Agent=stream-guard"  # after the signature, which does not cover it
        return sg.LoginToken(base64.urlsafe_b64encode(named.encode()).decode().rstrip("="), now + _SECONDS)

    def _credentials(self) -> AwsCredentials:
        key, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
        if key and secret:
            return AwsCredentials(key, secret, os.environ.get("AWS_SESSION_TOKEN", ""))
        try:
            from botocore.session import Session  # noqa: PLC0415  # whoever needs it installs it
        except ImportError:
            raise _error(
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set",
                "set them; for profiles and roles, pip install botocore",
            ) from None
        try:
            self._session = self._session or Session()
            found = self._session.get_credentials()
            frozen = None if found is None else found.get_frozen_credentials()
        except Exception as error:  # noqa: BLE001  # of many kinds; the text may have more of an answer than is ours to show
            raise _error(f"looking them up failed with {type(error).__name__}", _LOOK) from None
        if frozen is None:
            raise _error("there are none", _LOOK)
        return AwsCredentials(frozen.access_key, frozen.secret_key, frozen.token or "")


_LOOK: Final = "look at what `aws sts get-caller-identity` says here"


def _error(what: str, advice: str) -> sg.TokenError:
    return sg.TokenError(f"kafka.oauth_source msk_iam: no credentials of AWS: {what}; {advice}", retryable=True)


# AWS Signature Version 4: an address that carries the signature of its request.


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
