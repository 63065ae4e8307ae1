"""What may be seen of a value in an alert."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.redaction import MAX_TEXT, MAX_VALUES, redact, redact_text

KEY = "sk-" + "a1B2" * 8
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEow" * 400 + "\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret", "shown"),
    [
        (f"key {KEY} used", KEY, "key [masked api key] used"),
        ("AKIA" + "ABCD" * 4, "ABCDABCD", "[masked api key]"),
        ("Authorization: Bearer abc123def456", "abc123def456", "Authorization: Bearer [masked]"),
        ("eyJhbGciOiJI.eyJzdWIi.c2ln", "eyJzdWIi", "[masked web token]"),
        (f"see {PEM} end", "MIIEow", "see [masked private key] end"),
        ("see " + PEM[:300], "MIIEow", "see [masked private key]"),
        ("pay with 4111 1111 1111 1111 now", "1111 1111", "pay with [masked card number] now"),
        ("postgres://app:hunter2@db/x", "hunter2", "postgres://app:[masked]@db/x"),
        ("https://x/?password=hunter2&y=1", "hunter2", "https://x/?password=[masked]&y=1"),
        ('{"api_key": "open sesame"}', "sesame", '{"api_key": [masked]"}'),
        ('{\\"password\\": \\"hunter2\\"}', "hunter2", '{\\"password\\": [masked]\\"}'),
    ],
)
def test_a_secret_in_a_text_is_masked(text: str, secret: str, shown: str) -> None:
    assert redact(text) == shown
    assert secret not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "refund of 12.50 for order 8812 to anna@example.org",
        "bearer instruments are basic knowledge",
        "order 4111111111111112 is no card number",
        "at 1700000000000 ms",
        "the password was reset",
        "max_tokens: 400",
    ],
)
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_values_under_secret_names_are_masked_whatever_they_are() -> None:
    args = {"user": "anna", "password": ["a", "b"], "apiKey": "x", "cvv": 123, "token": None, "max_tokens": 5}
    assert redact(args) == {
        "user": "anna",
        "password": "[masked]",
        "apiKey": "[masked]",
        "cvv": "[masked]",
        "token": None,
        "max_tokens": 5,
    }


def test_a_card_number_given_as_a_number_is_masked() -> None:
    assert redact({"account": 4111111111111111, "order": 123}) == {"account": "[masked card number]", "order": 123}


def test_a_secret_across_the_cut_is_not_half_shown() -> None:
    for filler in range(MAX_TEXT - 60, MAX_TEXT + 1):
        shown = redact_text("x " * (filler // 2) + KEY + " tail" * 2000)
        assert "a1B2" not in shown
        assert len(shown) <= MAX_TEXT


def test_a_secret_at_the_end_of_what_is_looked_at_is_not_half_shown() -> None:
    keys = " ".join([KEY] * 1000)
    assert "a1B2" not in redact_text(keys)


def test_what_was_left_out_is_said() -> None:
    assert redact("word " * 100).endswith("…")
    assert redact(list(range(60)))[-1] == "[10 more]"
    assert redact({str(n): n for n in range(60)})["…"] == "[10 more]"
    deep: Any = "bottom"
    for _ in range(100):
        deep = [deep]
    assert "[1 values left out]" in str(redact(deep))


def test_a_wide_and_deep_value_stays_small() -> None:
    wide: Any = "leaf"
    for _ in range(5):
        wide = [wide] * 50
    assert len(msgspec.json.encode(redact(wide))) < 100 * MAX_VALUES


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=30,
)


@given(values)
def test_whatever_comes_in_what_goes_out_can_be_written_as_json(value: Any) -> None:
    msgspec.json.encode(redact(value))


def test_what_is_not_json_becomes_text() -> None:
    assert redact({"when": object, 3: {1}}) == {"when": "<class 'object'>", "3": [1]}
    assert redact(2**80) == "[a number of 81 bits]"
    assert redact("a\ud800b") == "a?b"


def test_more_clean_texts_than_are_remembered_are_shown_as_they_are() -> None:
    texts = [f"order {number}" for number in range(2500)]
    assert [redact(text) for text in (*texts, *texts)] == [*texts, *texts]


def test_secrets_beside_remembered_texts_are_masked_every_time() -> None:
    secret = {"order": "A-10000", "password": "hunter2", "note": "AKIAIOSFODNN7EXAMPLE"}
    shown = [redact(secret) for _ in range(3)]
    assert shown == [{"order": "A-10000", "password": "[masked]", "note": "[masked api key]"}] * 3
