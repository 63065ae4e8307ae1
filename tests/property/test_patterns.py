"""Regular expressions: whether one occurs is what a search finds, alone and in a set of many."""

from __future__ import annotations

import pickle
from copy import deepcopy

from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from stream_guard.judge.patterns import Regex, TextSet, literal

PLAIN = ["a", "b", "abc", "A", "aB1", "\\-", " ", "\\x61", "\\n", "é", "K"]
OTHERS = ["[ab]", "[^a]", ".", "\\d", "\\w", "\\b", "^", "$", "[]a]", "[a\\]]"]
READ_OTHERWISE = ["a{,2}", "a{2", "[[:alpha:]]", "[^[:space:]]", "\\Qa.c\\E", "\\141", "(?i)ab", "\\pL"]
ATOMS = st.sampled_from([*PLAIN, *OTHERS, *READ_OTHERWISE])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=4)
    repeats = st.sampled_from(["?", "*", "+", "{2}", "{0,2}", "{1,3}?", "+?"])
    return st.one_of(
        several.map("".join),
        several.map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, repeats).map(lambda part: f"({part[0]}){part[1]}"),
        inner.map(lambda part: f"(?i:{part})"),
        inner.map(lambda part: f"(?P<n>{part})"),
    )


PATTERNS = st.recursive(ATOMS, grown, max_leaves=8)
TEXTS = st.lists(
    st.sampled_from(
        ["a", "b", "c", "A", "B", "abc", "ABC", "aB1", "1", " ", "-", "\n", "{,2}", "{2", "]", "a]", "a.c", "ab"]
    ),
    max_size=10,
).map("".join)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(pattern=PATTERNS, texts=st.lists(TEXTS | st.text(max_size=20), min_size=1, max_size=8))
def test_what_occurs_is_what_a_search_finds(pattern: str, texts: list[str]) -> None:
    try:
        regex = Regex(pattern)
    except ValueError:
        reject()
    for text in texts:
        assert regex.occurs_in(text) is (regex.search(text) is not None)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(
    literals=st.lists(st.text("abkKsS .|(\n-", max_size=4), min_size=1, max_size=5),
    any_case=st.booleans(),
    text=st.text("abkKsS .|(\n-\x00\u212a\u017f\u0430\u200b\ud800", max_size=12),
)
def test_literals_occur_where_a_search_finds_them(literals: list[str], any_case: bool, text: str) -> None:
    regex = Regex(f"{'(?i)' if any_case else ''}(?:{'|'.join(map(literal, literals))})")
    assert regex.occurs_in(text) is (regex.search(text) is not None)


def test_a_regex_that_was_used_can_be_copied() -> None:
    regex = Regex("a+")
    assert regex.occurs_in("baa")
    for copied in (deepcopy(regex), pickle.loads(pickle.dumps(regex))):
        assert copied == regex
        assert copied.occurs_in("baa")


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(listed=st.lists(PATTERNS, min_size=1, max_size=5), texts=st.lists(TEXTS, min_size=1, max_size=8))
def test_a_set_finds_what_each_of_its_patterns_finds(listed: list[str], texts: list[str]) -> None:
    usable = []
    for pattern in listed:
        try:
            usable.append(Regex(pattern).pattern)
        except ValueError:
            continue
    assume(usable)
    found = TextSet(usable)
    for text in texts:
        wanted = {number for number, pattern in enumerate(usable) if Regex(pattern).search(text) is not None}
        assert set(found.search(text)) == wanted
