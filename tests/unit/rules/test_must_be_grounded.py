"""Words are counted as the spec says, and overlap is what the formula says."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from stream_guard_rules.must_be_grounded import STOPWORDS, MustBeGrounded, MustBeGroundedParams, tokens

from stream_guard.testing import run_rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", set()),
        (", . - _", set()),
        ("a b c", set()),
        ("The PARCEL, the parcel!", {"the", "parcel"}),
        ("order_id", {"order", "id"}),
        ("don't", {"don"}),
        ("4.20 EUR", {"20", "eur"}),
        ("café", {"café"}),
        ("cafe\u0301", {"café"}),
        ("東京タワー", {"東京タワー"}),
        ("x2 \u0663\u0664", {"x2", "\u0663\u0664"}),
    ],
)
def test_words_are_runs_of_two_letters_or_digits_at_least(text: str, words: set[str]) -> None:
    assert tokens(text) == words


def slow_words(text: str) -> set[str]:
    """The same, letter by letter."""
    found, run = set(), ""
    for char in [*unicodedata.normalize("NFC", text).lower(), " "]:
        if char.isalnum():
            run += char
            continue
        if len(run) >= 2:
            found.add(run)
        run = ""
    return found


@given(st.text() | st.text(st.characters(max_codepoint=127)))
def test_words_are_the_same_letter_by_letter(text: str) -> None:
    assert tokens(text) == slow_words(text)


@given(
    st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "the"]), min_size=1),
    st.lists(st.lists(st.sampled_from(["alpha", "beta", "the", "omega"])), min_size=1),
    st.sampled_from([0, 0.25, 0.5, 0.75, 1]),
)
def test_precision_is_the_share_of_the_answers_words(
    answer: list[str], chunks: list[list[str]], threshold: float
) -> None:
    words, known = set(answer), {word for chunk in chunks for word in chunk}
    grounded = bool(words - STOPWORDS) and len(words & known) / len(words) >= threshold
    turn = {"turn": " ".join(answer), "request": {"metadata": {"chunks": [" ".join(chunk) for chunk in chunks]}}}
    params = {"retrieval_path": "request.metadata.chunks", "min_unigram_precision": threshold}
    assert bool(run_rule(MustBeGrounded, params, [turn])) is not grounded


@pytest.mark.parametrize("threshold", [-0.1, 1.5, True, "0.5", float("nan")])
def test_threshold_outside_zero_to_one_is_refused(threshold: object) -> None:
    with pytest.raises(ValidationError):
        MustBeGroundedParams.model_validate({"retrieval_path": "request.x", "min_unigram_precision": threshold})


@pytest.mark.parametrize("path", ["tool.result.output", "user.text", "labels.x"])
def test_chunks_outside_the_turn_are_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="request or response"):
        MustBeGroundedParams.model_validate({"retrieval_path": path})
