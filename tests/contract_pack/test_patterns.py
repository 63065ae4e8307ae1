"""Python's regular expressions, in linear time and with Python's meaning."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_guard_contract.document import any_of, has_doubled_backslashes, python_pattern

from stream_guard.judge.patterns import Regex

PATTERNS = [
    *("a.b", "^a", "b$", r"\Aa", r"b\Z", "[$]", r"\$", "[^]a]$", "(?m)^b$", "(a|b)$", "", ".*", "[]$]", r"[\]$]a"),
    *(
        r"\w$",
        r"\W",
        r"^\d",
        r"\D$",
        r"\s\S",
        r"[\w$]b",
        r"[^\w\s]",
        r"[\d-]",
        "a{,2}b$",
        "(?i)É",
        "[a[]",
        "[b[a]+$",
        "a{2}",
    ),
    *("a$|b$", "(?:$)", r"\\$", "(?P<x>a)$"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text(alphabet="ab$][\\\n éÉ٣7_-\u2003\x1f", max_size=8))
def test_a_pattern_finds_what_python_finds(pattern: str, text: str) -> None:
    here = Regex(python_pattern(pattern)).search(text) is not None
    assert here == (re.search(pattern, text, re.DOTALL) is not None)


@pytest.mark.parametrize("pattern", ["(", "[a", "a(?=b)", r"(a)\1", "a**"])
def test_what_cannot_run_in_linear_time_or_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        python_pattern(pattern)


@given(texts=st.lists(st.text(max_size=4), min_size=1, max_size=3), inside=st.text(max_size=6))
def test_any_of_finds_texts_and_never_reads_them_as_patterns(texts: list[str], inside: str) -> None:
    if any(text in inside for text in texts):
        assert Regex(any_of(texts)).search(inside) is not None


def test_case_does_not_count_in_texts() -> None:
    assert Regex(any_of(["REFUND (é)"])).search("your Refund (É)") == "Refund (É)"


@pytest.mark.parametrize(
    ("pattern", "doubled"),
    [
        (r"\\$[\\d,]+\\.\\d{2}", True),
        (r"\$[\d,]+\.\d{2}", False),
        (r"C:\\Users", False),
        (r"\\d+\.", False),
        ("a", False),
    ],
)
def test_doubled_backslashes_are_distinguished_from_a_backslash_that_is_meant(pattern: str, doubled: bool) -> None:
    assert has_doubled_backslashes(pattern) is doubled
