"""The tools that a prompt can mean: a closed list where they are declared, else words written like names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

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
        for name in self.names:
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
