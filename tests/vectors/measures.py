"""Measures of how alike two texts are that a case gives by name, each with the number it is to find."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import stream_guard as sg
from stream_guard.registry import Registry, build_registry
from stream_guard.similarity import Similarity
from tests.vectors.case import WrongAnswerError


def registry(measures: dict[str, float] | None = None) -> Registry:
    """What is installed; with measures, also those, each finding every two texts as alike as its number says."""
    return _registry(tuple(sorted((measures or {}).items())))


@cache
def _registry(measures: tuple[tuple[str, float], ...]) -> Registry:
    if not measures:
        return build_registry()

    class Measures:
        @sg.hookimpl
        def stream_guard_similarities(self) -> dict[str, Similarity]:
            return {name: _always(value) for name, value in measures}

    return build_registry(extra=[Measures()])


def _always(value: float) -> Similarity:
    return lambda _first, _second: value


def measures_of(case: dict[str, Any], named: Iterable[Any] = (), unnamed: str = "") -> dict[str, float]:
    """Return the measures of a case: numbers by name, or one number for every measure that its rules name.

    ``unnamed`` is the name for the number where a rule that needs it names none.
    """
    given = case.get("stub_similarity")
    if given is None:
        return {}
    if isinstance(given, dict):
        return {name: float(value) for name, value in given.items()}
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise WrongAnswerError(f"stub_similarity is {given!r}; a number, or numbers by the measure's name")
    names = {name for name in named if isinstance(name, str)} | ({unnamed} if unnamed else set())
    return dict.fromkeys(names, float(given))
