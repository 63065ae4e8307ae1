"""The tools that a prompt can mean: a closed list where they are declared, else words written like names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from stream_guard_compliance.reading.values import word_set

# The stems of words, by which an action in words and the name of a tool are compared.

_ENDINGS: Final = ("ellations", "ellation", "ies", "ied", "ations", "ation", "ings", "ing", "ed", "es", "s", "e")


def stem(word: str) -> str:
    """Return the beginning that the forms of a word share, roughly: cancel, cancelling, cancellation."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + ("el" if ending.startswith("ell") else "")
            break
    if len(word) > 4 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if word.endswith("y") and len(word) > 3 else word


_MOST_DESCRIPTION: Final = 300  # characters that are looked at
_DECLARED: Final = re.compile(
    r'"name"\s{0,4}:\s{0,4}"([A-Za-z0-9_.:/-]{1,100})"\s{0,4},\s{0,8}"(?:description|parameters|input_schema)"'
)
_LISTED: Final = re.compile(
    r"(?im)^\W{0,6}(?:available |your )?tools?(?: available)?(?: are)?:[ \t]{0,4}([A-Za-z0-9_., `-]{1,2000})$"
)
# Endings of arguments and fields, which are written like tools.
_NOT_TOOLS: Final = (
    "_id",
    "_ids",
    "_code",
    "_number",
    "_date",
    "_name",
    "_at",
    "_amount",
    "_email",
    "_path",
    "_url",
    "_key",
)


_HANDS_OFF: Final = ("transferto", "handoff", "handover", "delegateto", "escalateto", "routeto")
_LOOKS: Final = word_set("get fetch retrieve look lookup view show access see read check")
_EMPTY: Final = frozenset(("tool", "function", "api", "a", "an", "the", "to", "of", "by", "at", "in", "for"))


def same_letters(word: str) -> str:
    """Return a word with doubled letters written once: people forget one of two."""
    return re.sub(r"(.)\1", r"\1", word)


_LOOK_STEMS: Final = frozenset(same_letters(stem(word)) for word in _LOOKS)


def _keys(stems: frozenset[str]) -> list[frozenset[str]]:
    """Return the words by which a tool is described: those of its name, and the same without looking."""
    keys = [stems, stems - {"look"}] if "look" in stems else [stems]
    return [key for key in keys if len(key) > 1]


def fold(name: str) -> str:
    """Return the name as it is compared: without case and without separators."""
    return re.sub(r"[\s_.:/-]", "", name.lower())


def words_of(name: str) -> list[str]:
    """Return the words a tool's name is made of, small."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[\s_.:/-]+", spaced.lower()) if word]


def looks_like_name(name: str) -> bool:
    """Whether a word is written like the name of a function: snake_case, camelCase or Class.method."""
    inner = name.strip("_.")
    if "_" in inner:
        return not inner.isupper()  # GITHUB_TOKEN is a constant
    return inner[:1].islower() and any(char.isupper() for char in inner)


ToolDeclaration: TypeAlias = str | Mapping[str, Any]
"""A tool as callers have it: its name, or an object with ``name`` and ``description``, perhaps under ``function``."""


def declarations(tools: Iterable[ToolDeclaration]) -> dict[str, str]:
    """Return the names of tools and what is said about each; what has no name is no tool."""
    found: dict[str, str] = {}
    for tool in tools:
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else {"name": tool}
        name, about = (inner.get("name"), inner.get("description")) if isinstance(inner, Mapping) else (None, None)
        if isinstance(name, str) and name:
            found.setdefault(name, about if isinstance(about, str) else "")
    return found


class Catalogue:
    """The tools that are known by name, in the order in which they came.

    ``closed`` says that there are no others: then a word written like a name is only a word. ``described`` has what
    is said about tools, by which an action in words is found too.
    """

    def __init__(
        self, names: Iterable[str] = (), *, closed: bool = False, described: Mapping[str, str] | None = None
    ) -> None:
        self.names = tuple(dict.fromkeys(name for name in names if name))
        self.closed = closed
        self._described = dict(described or {})
        self._spellings: dict[str, list[str]] = {}
        self._by_stems: dict[frozenset[str], list[str]] = {}
        self._stems = {name: self.stems(words_of(name)) for name in self.names}
        for name in self.names:
            for stems in _keys(self._stems[name]):
                self._by_stems.setdefault(stems, []).append(name)
            last = re.split(r"__|\.|/|:", name)[-1]
            for key in {fold(name), fold(last)}:
                if key:
                    self._spellings.setdefault(key, []).append(name)

    def spellings(self, name: str) -> list[str]:
        """Return the name and every known tool that is meant by it: another case, another separator, a prefix."""
        return list(dict.fromkeys([name, *self._spellings.get(fold(name), ())]))

    def knows(self, name: str) -> bool:
        """Whether the tool was declared or seen."""
        return fold(name) in self._spellings

    def means(self, name: str) -> str:
        """Return the tool that a name stands for: itself, or the only declared one that differs in its spelling."""
        known = self._spellings.get(fold(name), ())
        return name if name in known or len(known) != 1 or not self.closed else known[0]

    def is_tool(self, name: str) -> bool:
        """Whether a word that is used like the name of a tool is one."""
        if self.knows(name):
            return True
        return not self.closed and looks_like_name(name) and not name.lower().endswith(_NOT_TOOLS)

    def words(self, name: str) -> list[str]:
        """Return the words of a tool's name, and those of the first sentence that describes it."""
        first = re.split(r"[.!?\n]", self._described.get(name, "")[:_MOST_DESCRIPTION], maxsplit=1)[0]
        return [*words_of(name), *re.findall(r"[a-z]{3,40}", first.lower())]

    def described(self, words: Iterable[str]) -> list[str]:
        """Return the tools whose names are made of these words, whatever their forms and their order."""
        return list(self._by_stems.get(self.stems(words), ()))

    def renamed(self, verb: str, words: frozenset[str]) -> list[str]:
        """Return the tools that do something else to what the words are about: creating, after "update document"."""
        begins = same_letters(stem(verb))
        return [
            name
            for key, names in self._by_stems.items()
            if begins in key and len(key & words) == len(key) - 1 == len(words) - 1
            for name in names
        ]

    def labelled(self, words: Iterable[str], *, many: bool) -> list[str]:
        """Return the tools that have all these words in their names; several only where many are meant."""
        wanted = self.stems(words)
        found = [name for name in self.names if wanted and wanted <= self._stems[name]]
        return found if many or len(found) == 1 else []

    @property
    def handoffs(self) -> list[str]:
        """The tools that hand the session to another agent."""
        return [name for name in self.names if fold(name).startswith(_HANDS_OFF)]

    @staticmethod
    def stems(words: Iterable[str]) -> frozenset[str]:
        """Return what the forms of words share; verbs of looking are one, and what every name may have is left out."""
        found = {same_letters(stem(part)) for word in words for part in words_of(word)}
        return frozenset("look" if one in _LOOK_STEMS else one for one in found if one not in _EMPTY)

    def about(self, stems: Iterable[str]) -> list[str]:
        """Return the known tools that have a word of their name begin like one of the stems."""
        beginnings = tuple(dict.fromkeys(stem for stem in stems if len(stem) >= 3))
        return [
            name for name in self.names if beginnings and any(word.startswith(beginnings) for word in words_of(name))
        ]


def declared_in(prompt: str) -> list[str]:
    """Return the tools that the prompt itself declares: as JSON, or in a line "Tools: a, b, c"."""
    names = [match.group(1) for match in _DECLARED.finditer(prompt) if match.group(1) not in {"function", "string"}]
    for match in _LISTED.finditer(prompt):
        listed = [name.strip(" `.") for name in match.group(1).replace(" and ", ",").split(",")]
        if all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,99}", name) for name in listed if name):
            names += [name for name in listed if name]
    return list(dict.fromkeys(names))
