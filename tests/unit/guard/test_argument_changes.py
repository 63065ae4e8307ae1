from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.guard.rewriting import MASK, apply_change
from stream_guard.judge.model import Json
from stream_guard.judge.patterns import Regex
from stream_guard.judge.spec import ArgumentChange

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 500) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc0"), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.lists(st.sampled_from("abc01"), min_size=1, max_size=3).map(".".join)
CHANGES = st.one_of(
    st.builds(ArgumentChange, PATHS, st.just("cap"), st.integers(0, 100)),
    st.builds(ArgumentChange, PATHS, st.just("drop"), st.just(True)),
    st.builds(ArgumentChange, PATHS, st.just("set"), JSON),
    st.builds(ArgumentChange, PATHS, st.just("mask"), st.just(True)),
)


@pytest.mark.parametrize(
    ("change", "args", "wanted"),
    [
        (ArgumentChange("amount", "cap", 100), {"amount": 250}, {"amount": 100}),
        (ArgumentChange("amount", "cap", 100), {"amount": 50.5}, {"amount": 50.5}),
        (ArgumentChange("amount", "cap", 0), {"amount": True}, {"amount": True}),
        (ArgumentChange("amount", "cap", 100), {"amount": "250"}, {"amount": "250"}),
        (ArgumentChange("a.b", "drop", True), {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
        (ArgumentChange("a.0", "drop", True), {"a": [1, 2]}, {"a": [2]}),
        (ArgumentChange("a.-1", "drop", True), {"a": [1, 2]}, {"a": [1, 2]}),
        (ArgumentChange("a.b", "drop", True), {"a": 1}, {"a": 1}),
        (ArgumentChange("dry_run", "set", True), {}, {"dry_run": True}),
        (ArgumentChange("a.dry_run", "set", True), {"a": {}}, {"a": {"dry_run": True}}),
        (ArgumentChange("a.dry_run", "set", True), {}, {}),
        (ArgumentChange("note", "mask", True), {"note": {"x": ["y", 1]}}, {"note": {"x": [MASK, MASK]}}),
    ],
)
def test_a_change_does_what_its_word_says(change: ArgumentChange, args: Json, wanted: Json) -> None:
    assert apply_change(change, args) == wanted


def test_a_pattern_is_masked_wherever_it_stands_and_however_it_is_disguised() -> None:
    change = ArgumentChange("", "mask", "sk-[a-z]+", Regex("sk-[a-z]+"))
    args = {"a": ["use sk-abc or sk-def", 7], "b": "sk\u200b-abc"}
    assert apply_change(change, args) == {"a": [f"use {MASK} or {MASK}", 7], "b": MASK}


@given(args=st.dictionaries(st.sampled_from("abc0"), JSON, max_size=3), change=CHANGES)
def test_what_comes_in_stays_as_it_is_and_a_change_made_twice_is_made_once(args: Json, change: ArgumentChange) -> None:
    before = copy.deepcopy(args)
    once = apply_change(change, args)
    assert args == before
    if change.word != "drop":  # of a list it takes out the next one, too
        assert apply_change(change, once) == once
