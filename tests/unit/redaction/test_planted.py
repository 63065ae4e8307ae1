"""What share of planted secrets is shown, and what share of honest texts is spoilt."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stream_guard.redaction import mask_secrets
from stream_guard.redaction.formats import FORMATS
from tests.unit.redaction.planted import draw, drawn_parts, shapes, texts_with

ROOT = Path(__file__).parents[3]
SPOILT = 0.001  # the share of honest texts that may be spoilt


@pytest.mark.parametrize(("vendor", "shape"), shapes())
def test_no_secret_of_a_published_shape_is_shown(vendor: str, shape: str) -> None:
    random = Random(vendor)  # the same secrets in every run
    shown = []
    for _ in range(4):
        secret = draw(shape, random)
        parts = drawn_parts(shape, secret)
        shown += [text for text in texts_with(secret) if any(part in mask_secrets(text) for part in parts)]
    assert shown == []


@pytest.mark.parametrize("before", ["x", "Q", "7", "key", "apikey"])
@pytest.mark.parametrize(
    "shape",
    ["sk-{A48}", "sk-proj-{w60}", "sk-ant-api03-{w60}", "ghp_{A36}", "hf_{A34}", "glpat-{A20}", "sk_live_{A24}"],
)
def test_a_key_that_is_glued_to_a_word_is_not_shown(before: str, shape: str) -> None:
    random = Random(f"{before}{shape}")  # the same secrets in every run
    for _ in range(20):
        secret = draw(shape, random)
        assert mask_secrets(f"run {before}{secret} now") == f"run {before}[masked api key] now"


@pytest.mark.parametrize("before", ["x", "key", "apikey"])
@pytest.mark.parametrize("shape", ["AKIA{U16}", "SCW{U17}"])
def test_a_key_of_capitals_is_not_shown_where_it_is_glued_to_a_small_letter(before: str, shape: str) -> None:
    random = Random(f"{before}{shape}")  # the same secrets in every run
    for _ in range(20):
        assert mask_secrets(f"run {before}{draw(shape, random)} now") == f"run {before}[masked api key] now"


@pytest.mark.parametrize("text", ["camelAKIAid", "xAKIASHORT7", "GEZDGNAKIAIOSFODNN7EXAMPLEBVGY3TQOJQ", "fooSCWbar"])
def test_capitals_inside_of_names_and_of_encoded_data_stay(text: str) -> None:
    assert mask_secrets(text) == text


def test_the_table_and_the_shapes_hold_more_than_a_hundred_vendors() -> None:
    assert len({row.vendor for row in FORMATS}) >= 100
    assert len(shapes()) >= 100


@pytest.mark.parametrize(
    "context",
    [
        "TWILIO_AUTH_TOKEN=%s node send.js",
        "export DD_API_KEY='%s'",
        'aws_secret_access_key = "%s"',
        '{"client_secret": "%s", "n": 1}',
        '{\\"client_secret\\": \\"%s\\"}',
        "X-Auth-Token: %s",
        "x-api-key: %s\r\nAccept: */*",
        "Authorization: Token %s",
        "Authorization: %s",
        "'Authorization': 'ApiKey %s'",
        "Cookie: session=%s; theme=dark",
        "https://me:%s@example.com/x",
        "redis://:%s@cache:6379/0",
        "https://%s@github.com/acme/app.git",
        "https://example.com/cb?access_token=%s&state=1",
        "https://store.example.net/a?se=2026&sig=%s",
        "mysql --user me --password %s",
        "curl -u me:%s https://example.com",
        "tool --api-key %s run",
        "<password>%s</password>",
        "Server=db;User Id=sa;Password=%s;Timeout=3",
        "the password is %s",
        "spring.datasource.password=%s",
        "passwd: %s",
        "secretAccessKey: %s",
        "private_key_id: %s",
        'config.password = "%s"',
        "password%%3D%s%%26x",
    ],
)
def test_a_secret_without_a_shape_is_told_by_its_name_or_its_place(context: str) -> None:
    random = Random(context)  # the same secrets in every run
    for shape in ("{h32}", "{A40}", "{w28}", "{u}", "{A20}"):
        secret = draw(shape, random)
        assert secret not in mask_secrets(context % secret)


@pytest.mark.parametrize(
    "password",
    [
        "hunter2",
        "swordfish",
        "Tr0ub4dor&3",
        "emma.student.pass",
        "correct-horse-battery",
        "no-Way1",
        "my.pass",
        "$ecret12",
    ],
)
@pytest.mark.parametrize("context", ["password=%s", "Password: %s", '{"passwd": "%s"}', "ftp://anna:%s@host/x"])
def test_a_password_may_be_words(context: str, password: str) -> None:
    assert password not in mask_secrets(context % password)


@pytest.mark.parametrize(
    "text",
    [
        "The token count: 512, max_tokens=4096, token_type: bearer",
        "nextPageToken: null, api_key=None, password: Optional[str]",
        "password = os.environ['PASSWORD']; secret = settings.secret",
        "Password: required. Secret santa is on Friday.",
        "primary_key=True, foreign_key: orders.id, partition_key = session_id",
        "idempotency_key=7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "key: value, keyboard: qwerty, monkey=banana, turkey: 2",
        "sk-learn-pipeline-configuration-example and sk-your-key-goes-here",
        "task-force, disk-usage-report-of-2026, risk-register",
        "task-7f3a9b2c4d5e6f708192aabb, disk-getElementsByTagNameAndClass, desk-TeamRedBlueGreen-Report",
        "pk_index_on_orders, rk_position, whsec_ is a prefix",
        "ghp_ and github_pat_ begin tokens; ghp_example_token_name",
        "glpat-rotation-runbook-for-2026-q1",
        "test_that_a_session_ends_after_an_idle_time_in_event_time",
        "live_view_of_all_the_sessions_that_are_open_right_now",
        "s.getElementsByTagNameAndClass(x)",
        "AKIA is the prefix of AWS, AIza that of Google",
        "/usr/lib/python3.12/site-packages/numpy/core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so",
        "s3://bucket/year=2026/month=01/part-00000-7c9e6679-7425-40de-944b-e07fc1f90ae7-c000.snappy.parquet",
        "https://example.com/docs/api-key-rotation#secret-managers",
        "mailto:anna@example.org, https://example.com/@anna/posts",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2yVQx6T9i2oIr2dEo3uQmNf2pVtR0oGJp anna@laptop",
        "-----BEGIN CERTIFICATE-----",
        "IBAN DE89 3704 0044 0532 0130 00, BIC COBADEFFXXX",
        "sha512-0dRGhWbpRAqeh8nQLrCh2sZ5zZzqDkfh2yPM1uYhBBCFG9sCkqkyTQWqF7aGqVjqZ8V1aVJvMbL3ZLrbZ5hM3g==",
        "Basic authentication needs a basic understanding of bearer instruments",
        "Authorization: Bearer <token>",
        "Set-Cookie: none",
        "Пароль должен быть длинным; パスワードを入力",
        "build 20260105.3 of 1a2b3c4d took 00:03:12.512",
        "arn:aws:iam::123456789012:role/admin",
        "pod web-6d4cf56db6-x7k2p in ns prod-eu-west-1",
        "session=refund-00003 turn=2: issue_refund was called before confirm_refund_amount",
    ],
)
def test_an_honest_text_stays_as_it_is(text: str) -> None:
    assert mask_secrets(text) == text


def spoilt_share(texts: Iterator[str]) -> tuple[float, list[str]]:
    """Return the share of the texts that masking changes, and those texts."""
    kinds = list(texts)
    spoilt = [text for text in kinds if mask_secrets(text) != text]
    return len(spoilt) / len(kinds), spoilt


def test_chance_that_is_no_secret_is_hardly_ever_spoilt() -> None:
    random = Random(7)  # the same texts in every run
    forms = (
        "commit {h40}",
        "{u}",
        "id {h24}",
        "sha256:{h64}",
        "{d10}",
        "{U26}",
        "order {d3}-{d7}-{d7}",
        "blob {b200}",
        "{A22}",
        "task-{h24}",
        "mask_{h32}",
        "shelf_{h32}",
    )
    share, spoilt = spoilt_share(draw(form, random) for form in forms for _ in range(2_000))
    assert share < SPOILT, spoilt[:10]


def test_prose_and_code_are_hardly_ever_spoilt() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("stream_guard/**/*.py"), *ROOT.glob("plugins/**/*.py")]
    lines = (line for page in sorted(pages) for line in page.read_text(encoding="utf-8").splitlines() if line.strip())
    share, spoilt = spoilt_share(lines)
    assert share < SPOILT, spoilt[:10]


@pytest.mark.slow
def test_real_traces_are_hardly_ever_spoilt() -> None:
    folder = os.environ.get("STREAM_GUARD_DATA")
    if not folder:
        pytest.skip("STREAM_GUARD_DATA is not set: there are no real traces")
    share, spoilt = spoilt_share(iter(sorted(_lines_of(Path(folder)))))
    assert share < SPOILT, spoilt[:10]


def _lines_of(folder: Path) -> set[str]:
    lines: set[str] = set()
    for file in sorted(folder.rglob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8", errors="replace") as opened:
            for record in opened:
                lines.update(
                    line for text in _texts(json.loads(record)) for line in text.splitlines() if len(line) < 2_000
                )
    return lines


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
