"""The quick look of the compiled build at shared words: it says what the sets of words say, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stream_guard_rules import shared_words
from stream_guard_rules.grounding import tokens

from tests.c_modules import open_c_module

Look = Callable[[str, list[Any], float, int], bool]


@pytest.fixture(scope="module")
def shares_words(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """The quick look, in C."""
    look: Look = open_c_module(shared_words, tmp_path_factory.mktemp("c")).shares_words
    return look


def reached(text: str, others: list[str], share: float, longer_than: int) -> bool:
    """The same by sets of words."""
    words = tokens(text)
    missing = words
    for other in others:
        missing = missing - tokens(other)
        if any(len(word) > longer_than for word in words) and 1 - len(missing) / len(words) >= share:
            return True
    return False


ASCII = st.text(st.characters(max_codepoint=127), max_size=40)
PIECES = st.sampled_from(
    ["parcel", "Parcel", "PARCEL", "friday", "on", "a", "b2", "42", " ", "_", "-", ".", "\n", "\0"]
)
TEXTS = st.lists(PIECES, max_size=12).map(" ".join) | st.lists(PIECES, max_size=12).map("".join) | ASCII
SHARES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 2 / 3, 0.9, 1.0])


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, others=st.lists(TEXTS, max_size=4), share=SHARES, longer_than=st.integers(0, 7))
@example(text="parcel", others=[""], share=0.0, longer_than=5)
@example(text="parcel on friday", others=["parcel", "FRIDAY"], share=2 / 3, longer_than=5)
def test_of_ascii_it_says_what_the_sets_say(
    text: str, others: list[str], share: float, longer_than: int, shares_words: Look
) -> None:
    assert shares_words(text, others, share, longer_than) is reached(text, others, share, longer_than)


@settings(max_examples=150, deadline=None)
@given(text=st.text(), others=st.lists(st.text() | TEXTS, max_size=4), share=SHARES, longer_than=st.integers(0, 7))
def test_of_any_text_what_it_proves_is_so(
    text: str, others: list[str], share: float, longer_than: int, shares_words: Look
) -> None:
    if shares_words(text, others, share, longer_than):
        assert reached(text, others, share, longer_than)


@pytest.mark.parametrize("count", [31, 32, 33, 500, 512, 513, 5000])
def test_many_words_are_found_or_left_to_the_sets(count: int, shares_words: Look) -> None:
    text = " ".join(f"word{number}" for number in range(count))
    half = " ".join(f"WORD{number}" for number in range(0, count, 2))
    if shares_words(text, [half], 0.5, 5):
        assert reached(text, [half], 0.5, 5)
    assert shares_words(text, [text], 1.0, 5) or count > 400
    assert not shares_words(text, [half], 0.9, 5)


def test_an_ordinary_answer_needs_no_sets(shares_words: Look) -> None:
    assert shares_words("The parcel arrives on Friday. thank you", ["the parcel arrives on friday"], 0.5, 5)
    assert not shares_words("Bananas grow in clusters.", ["the parcel arrives on friday"], 0.5, 5)


@pytest.mark.parametrize("other", [{"text": "parcel"}, None, 5, "p\u00e4rcel"])
def test_what_is_no_ascii_text_proves_nothing(other: object, shares_words: Look) -> None:
    assert not shares_words("parcel", [other, "parcel"], 0.5, 5)


@pytest.mark.parametrize("given", [(), ("a", "b", 0.5, 5), (b"a", [], 0.5, 5), ("a", [], "x", 5), ("a", [], 0.5, "x")])
def test_what_it_cannot_take_is_refused(given: tuple[Any, ...], shares_words: Look) -> None:
    with pytest.raises(TypeError):
        shares_words(*given)
