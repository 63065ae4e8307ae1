"""The words for scopes in older policies: since version 2 of the language, the whole session is called a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stream_guard.judge.model import Json


class ScopeWord(NamedTuple):
    """The word that a rule has for its scope today, and what there is to say about the one that was written."""

    rule: int
    today: str
    warning: str


def scope_words(rules: Sequence[Json], version: Json) -> Iterator[ScopeWord]:
    """Yield the scopes of rules that are written in the words of version 1; a file that says no version is such a one.

    ``trace`` is read in any file. ``session`` is read as the file means it: a rule never judges something else because
    the program that reads it is newer.
    """
    for number, rule in enumerate(rules):
        word = rule.get("scope") if isinstance(rule, dict) else None
        if word == "trace":
            yield ScopeWord(
                number, "session", "scope: trace is called session now; leave the scope out, it is the default"
            )
        elif word == "session" and version != 2:
            text = (
                "without `version: 2` at the top, scope: session is each part of a session that a user began; write "
                "scope: part for that, and no scope for the whole session"
            )
            yield ScopeWord(number, "part", text)


def with_todays_words(rules: Sequence[Json], version: Json) -> list[Json]:
    """Return the rules with the scopes as they are called today."""
    renamed = {word.rule: word.today for word in scope_words(rules, version)}
    return [{**rule, "scope": renamed[number]} if number in renamed else rule for number, rule in enumerate(rules)]
