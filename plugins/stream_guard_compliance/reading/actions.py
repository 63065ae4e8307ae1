"""Actions that a sentence describes without naming a tool: the word stems that such a tool's name may have."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_compliance.reading.word_lists import word_set

_WORD: Final = re.compile(r"[a-z]{3,40}")
_IN_BRACKETS: Final = re.compile(r"\(([^()]{3,300})\)")
# Words that say nothing about which tool is meant.
_GENERIC: Final = word_set(
    "the and for any all are you must should have has with from that this these those their your our its his her "
    "into take takes taking took make makes making perform performing run runs running execute executing call "
    "calls calling use uses using proceed proceeding act action actions tool tools user users customer customers "
    "client person agent assistant database data system other others before after prior without unless until only "
    "first also every each consequential destructive irreversible dangerous sensitive critical important large "
    "big high above over more than greater exceeding least amount amounts dollars usd eur such either yes not "
    "never explicit explicitly ask asking get getting obtain obtaining list details detail sql query queries "
    "command commands file files operation operations change changes order orders item items request requests "
    "anything something attempt attempts try tries failed manager supervisor approval approved approve confirm "
    "confirmation confirmed permission consent can cannot will shall may need needs require requires required "
    "doing done does dont let lets wait when once while"
)
_ENDINGS: Final = ("ellations", "ellation", "ations", "ation", "ings", "ing", "ed", "es", "s", "e")


def stem(word: str) -> str:
    """Return the beginning that the forms of a word share, roughly: cancel, cancelling, cancellation."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + ("el" if ending.startswith("ell") else "")
            break
    if len(word) > 4 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if word.endswith("y") and len(word) > 3 else word


def stems_of(phrase: str) -> tuple[str, ...]:
    """Return the beginnings of the words that say which action is meant.

    A list in brackets says it best, by the first word of each entry; else the first verb or noun that means
    something does, and in "refund or cancel" both.
    """
    bracket = _IN_BRACKETS.search(phrase)
    if bracket and "," in bracket.group(1):
        entries = re.split(r",| or | and |/", bracket.group(1))
        firsts = [words[0] for entry in entries if (words := _WORD.findall(entry.lower()))]
        kept = [word for word in firsts if word not in _GENERIC or word in {"change", "order"}]
        if len(kept) > 1:
            return tuple(dict.fromkeys(map(stem, kept)))
    parts = re.split(r",| or | and |/", phrase.lower().split(" to ", 1)[0])
    firsts = []
    for part in parts[:12]:
        meaning = next((word for word in _WORD.findall(part) if word not in _GENERIC), None)
        if meaning is not None:
            firsts.append(meaning)
    return tuple(dict.fromkeys(map(stem, firsts)))
