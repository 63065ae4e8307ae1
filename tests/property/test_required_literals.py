"""Literals first: what a pattern is said to require, every text that it matches contains."""

from __future__ import annotations

import pickle
from copy import deepcopy
from types import ModuleType

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from stream_guard.engine.texts import strings_of
from stream_guard.language import literal_scan, patterns
from stream_guard.language.patterns import Regex, TextSet, literal
from stream_guard.language.required_literals import required_literals, whole_literals
from stream_guard.model import Json
from tests.c_modules import open_c_module

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


@settings(max_examples=200, deadline=None)
@given(pattern=PATTERNS, texts=st.lists(TEXTS, min_size=1, max_size=8))
def test_a_text_that_matches_contains_one_of_them(pattern: str, texts: list[str]) -> None:
    try:
        regex = Regex(pattern)
    except ValueError:
        reject()
    required = required_literals(pattern)
    for text in texts:
        if required is not None and regex.occurs_in(text):
            assert any(one in text.lower() for one in required), (required, text)


@pytest.mark.parametrize(
    ("pattern", "required"),
    [
        ("(?i)Internal code 1[0-9]{3}|password 1", {"internal code 1", "password 1"}),
        (literal("case INT-1."), {"case int-1."}),
        ("BEGIN [A-Z ]*PRIVATE KEY", {"private key"}),
        ("of(bars|maze)+", {"bars", "maze"}),
        ("abc(def)?", {"abc"}),
        ("(?:ab|)cdef", {"cdef"}),
        ("ab|cdef", None),
        ("(abc)*", None),
        ("\\d{16}", None),
        ("[[:alpha:]]abc", None),
        ("\\Qabc\\E", None),
        ("é+abc", {"abc"}),
    ],
)
def test_what_patterns_require(pattern: str, required: set[str] | None) -> None:
    assert required_literals(pattern) == required


@settings(max_examples=200, deadline=None)
@given(pattern=PATTERNS, texts=st.lists(TEXTS | st.text(max_size=20), min_size=1, max_size=8))
def test_what_occurs_is_what_a_search_finds(pattern: str, texts: list[str]) -> None:
    try:
        regex = Regex(pattern)
    except ValueError:
        reject()
    for text in texts:
        assert regex.occurs_in(text) is (regex.search(text) is not None)


@settings(max_examples=200, deadline=None)
@given(
    literals=st.lists(st.text("abkKsS .|(\n-", max_size=4), min_size=1, max_size=5),
    any_case=st.booleans(),
    text=st.text("abkKsS .|(\n-\x00\u212a\u017f\u0430\u200b\ud800", max_size=12),
)
def test_literals_occur_where_a_search_finds_them(literals: list[str], any_case: bool, text: str) -> None:
    regex = Regex(f"{'(?i)' if any_case else ''}(?:{'|'.join(map(literal, literals))})")
    assert regex.occurs_in(text) is (regex.search(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [
        (f"(?i)(?:{literal('According to')})", (("according to",), True)),
        ("(?s)Feed|(ba[rz])", (("Feed", "bar", "baz"), False)),
        ("a|", (("a", ""), False)),
        ("a|b|c|d|e", None),  # one search for all of them is quicker
        ("(?i:a)b", None),
        ("naïve", None),
        ("^abc", None),
        ("ab?", None),
        ("\\Qabc\\E", None),
    ],
)
def test_which_patterns_are_nothing_but_literals(pattern: str, whole: tuple[tuple[str, ...], bool] | None) -> None:
    assert whole_literals(pattern) == whole


@pytest.mark.skipif(not str(patterns.__file__).endswith(".py"), reason="a compiled module cannot be patched")
def test_without_the_inside_of_the_package_its_own_search_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_wrapped_match", lambda *_: None)
    patterns._compile_set.cache_clear()
    for text in ("a 1", "a\ud800 1", "a\u200b 1" * 1000):
        assert Regex("a.? 1").occurs_in(text)
        assert TextSet(["never", "a.? 1"]).search(text) == [1]
    assert not Regex("a.? 1").occurs_in("a2")


def test_a_regex_that_was_used_can_be_copied() -> None:
    regex = Regex("a+")
    assert regex.occurs_in("baa")
    for copied in (deepcopy(regex), pickle.loads(pickle.dumps(regex))):
        assert copied == regex
        assert copied.occurs_in("baa")


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return open_c_module(literal_scan, tmp_path_factory.mktemp("c"))


LITERALS = st.lists(st.text("abcd -", min_size=3, max_size=20), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(
    literals=LITERALS,
    before=st.text("abcdABCD -", max_size=40),
    number=st.integers(0, 5),
    after=st.text("ab C", max_size=5),
)
def test_the_search_misses_no_literal(
    literals: list[str], before: str, number: int, after: str, in_c: ModuleType
) -> None:
    prepared = in_c.prepare([one.encode() for one in literals])
    hidden = before + literals[number % len(literals)].upper() + after
    assert in_c.may_occur(prepared, hidden)
    # Of a long literal only its beginning is looked for.
    assert in_c.may_occur(prepared, before) == any(one[:16] in before.lower() for one in literals)


@pytest.mark.parametrize("text", ["pass\x00word", "pass\x7fword", "p\u0430ssword", "passw\u00adord", "naïve"])
def test_a_text_that_is_read_otherwise_than_it_is_written_is_not_ruled_out(text: str, in_c: ModuleType) -> None:
    prepared = in_c.prepare([b"password"])
    assert in_c.may_occur(prepared, text)
    assert not in_c.may_occur(prepared, "line\n\tand line\r\n")


VALUES = st.recursive(
    st.none() | st.integers() | st.booleans() | st.text("abcdABCD -\n\u00e9\x00", max_size=20),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text("abC -", max_size=5), inside, max_size=4),
)


@settings(max_examples=300, deadline=None)
@given(literals=LITERALS, value=VALUES)
def test_a_value_is_ruled_out_only_where_its_joined_strings_have_no_literal(
    literals: list[str], value: Json, in_c: ModuleType
) -> None:
    text = strings_of(value)
    if not in_c.may_occur(in_c.prepare([one.encode() for one in literals]), value):
        assert text.isascii()
        assert not any(one in text.lower() for one in literals)
    elif text.isascii() and "\x00" not in text:
        assert any(one[:16] in text.lower() for one in literals)


def test_what_is_nested_deeply_is_not_ruled_out(in_c: ModuleType) -> None:
    value: Json = "harmless"
    prepared = in_c.prepare([b"password"])
    for level in range(100):
        assert in_c.may_occur(prepared, value) is (level > 32)
        value = [value] if level % 2 else {"inner": value}


@pytest.mark.parametrize("value", [{5: "x"}, ["password"], {"a": {"password": 1}}, {"a": [[], "PASSWORD"]}])
def test_names_and_entries_are_looked_into(value: Json, in_c: ModuleType) -> None:
    assert in_c.may_occur(in_c.prepare([b"password"]), value)


@pytest.mark.parametrize("literals", [[], [b"ab"], [b"abc"] * 256, ["abc"]])
def test_what_cannot_be_prepared_is_refused(literals: list[bytes], in_c: ModuleType) -> None:
    with pytest.raises(ValueError, match="1 to 255 literals"):
        in_c.prepare(literals)


@pytest.mark.parametrize("arguments", [(b"", "text"), (b"short", "text"), ("x", "text"), (b"",)])
def test_what_was_not_prepared_is_refused(arguments: tuple[object, ...], in_c: ModuleType) -> None:
    with pytest.raises(TypeError, match="prepare"):
        in_c.may_occur(*arguments)


@settings(max_examples=100, deadline=None)
@given(listed=st.lists(PATTERNS, min_size=1, max_size=5), texts=st.lists(TEXTS, min_size=1, max_size=8))
def test_a_set_finds_the_same_with_and_without_looking_for_literals(
    listed: list[str], texts: list[str], in_c: ModuleType
) -> None:
    usable = []
    for pattern in listed:
        try:
            usable.append(Regex(pattern).pattern)
        except ValueError:
            continue
    assume(usable)
    with pytest.MonkeyPatch.context() as patch:
        if str(patterns.__file__).endswith(".py"):  # compiled, it has them already
            patch.setattr(patterns, "prepare", in_c.prepare)
            patch.setattr(patterns, "may_occur", in_c.may_occur)
        found = TextSet(usable)
        for text in texts:
            wanted = {number for number, pattern in enumerate(usable) if Regex(pattern).occurs_in(text)}
            assert set(found.search(text)) == wanted
            assert not wanted or not found.is_absent(text)
        if any(found.is_absent(text) for text in texts):
            apart = [text for text in texts if found.is_absent(text)]
            assert not found.search("\n".join(apart))
