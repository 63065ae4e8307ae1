"""Tokens for Amazon MSK: a request signed by SigV4, as AWS's own documents show it."""

from __future__ import annotations

import base64
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from stream_guard_tokens.msk_iam import AwsCredentials, AwsScope, MskIam, presign

from stream_guard.errors import SettingsError, TokenError
from stream_guard.settings import KafkaSettings

KEY, SECRET, SESSION = "AKIDEXAMPLE", "canary/0a1b2c3d+4e", "session+canary=="


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def decoded(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def fetch(region: str) -> str:
    return decoded(MskIam.open(KafkaSettings(oauth_region=region)).fetch().text)


def test_a_request_is_signed_as_in_the_example_that_aws_publishes() -> None:
    # "Authenticating Requests: Using Query Parameters", in the reference of Amazon S3.
    credentials = AwsCredentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    scope = AwsScope("us-east-1", "s3", datetime(2013, 5, 24, tzinfo=UTC).timestamp(), 86_400)
    url = presign(("examplebucket.s3.amazonaws.com", "/test.txt"), {}, credentials, scope, "UNSIGNED-PAYLOAD")
    assert url.endswith("&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")


@pytest.mark.parametrize("session", ["", SESSION])
def test_the_token_is_a_request_to_connect_that_our_credentials_have_signed(
    monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    if session:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session)
    token = MskIam.open(KafkaSettings(oauth_region="eu-central-1")).fetch()
    assert token.expires is not None
    assert 0 < token.expires - time.time() <= 900
    text = decoded(token.text)
    url = urlsplit(text)
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-central-1.amazonaws.com", "/")
    query = dict(parse_qsl(url.query, strict_parsing=True))
    assert (query["Action"], query["X-Amz-Expires"]) == ("kafka-cluster:Connect", "900")
    assert query["X-Amz-Credential"].startswith(f"{KEY}/")
    assert query["X-Amz-Credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert query.get("X-Amz-Security-Token", "") == session
    at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    scope = AwsScope("eu-central-1", "kafka-cluster", at, 900)
    signed = presign((url.netloc, "/"), {"Action": query["Action"]}, AwsCredentials(KEY, SECRET, session), scope)
    assert text == f"{signed}&User-Agent=stream-guard"
    assert SECRET not in text


def test_the_region_comes_from_the_variables_of_aws_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert fetch("").startswith("https://kafka.us-west-2.amazonaws.com/?")


@pytest.mark.parametrize("region", ["", "eu/../x", "Evil.example/"])
def test_a_region_that_is_missing_or_none_is_said(region: str) -> None:
    with pytest.raises(SettingsError, match=r"needs the cluster's region: set kafka\.oauth_region"):
        fetch(region)


def test_credentials_that_botocore_finds_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("botocore", reason="botocore is not in our locks: it takes older packages than others")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    file = tmp_path / "credentials"
    file.write_text(f"[default]\naws_access_key_id = AKIDFILE\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    assert "X-Amz-Credential=AKIDFILE%2F" in fetch("eu-west-1")
    file.unlink()
    with pytest.raises(TokenError, match="no credentials of AWS: there are none; look at what `aws sts"):
        fetch("eu-west-1")


def test_without_credentials_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(TokenError, match="are not set; set them; for profiles and roles, pip install botocore"):
        fetch("eu-west-9")


def test_credentials_do_not_show_themselves() -> None:
    assert "canary" not in repr(AwsCredentials(KEY, SECRET, SESSION)) + str(AwsCredentials(KEY, SECRET, SESSION))
