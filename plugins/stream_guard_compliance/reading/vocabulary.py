"""The tools that a prompt can name: declared, seen in the trace, or written like a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard_compliance.reading.word_lists import word_set

# A name with an inner underscore, dot or capital: people do not write words like that.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:(?:__?|\.|-)[A-Za-z0-9]+)*")
_CODE: Final = re.compile(r"`([^`\n]{1,200})`")
_DECLARED: Final = re.compile(r'"name"\s{0,4}:\s{0,4}"([A-Za-z0-9_.:/-]{1,100})"')
_LISTED: Final = re.compile(r"(?i)\btools?(?: available)?(?: are)?:\s{0,4}([A-Za-z0-9_., `-]{1,2000})")
_NOT_TOOLS: Final = ("_id", "_ids", "_code", "_number", "_date", "_name", "_at", "_amount", "_email")
_CALLS: Final = word_set(
    "call calls calling called use uses using used invoke invokes invoking invoked run runs running execute "
    "executing trigger triggering with prior to via before after"
)
_VERBS: Final = _CALLS - {"with", "to", "prior", "via", "before", "after"}
_AFTER: Final = frozenset(("tool", "tools", "function", "functions", "api", "endpoint"))
# Words before "tool" that are no names.
_PLAIN: Final = word_set(
    "any this that each every one same other right appropriate available following no single only a an which another "
    "external all these those correct wrong the your our such many more new own different relevant necessary order "
    "and or at two three few several make making own both use using call calling"
)


def fold(name: str) -> str:
    """Return the name as it is compared: without case, and with one sort of separator."""
    return name.lower().replace("-", "_").replace(".", "_").replace(" ", "_")


def words_of(name: str) -> list[str]:
    """Return the words a tool's name is made of, small."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in fold(spaced).split("_") if word]


@dataclass(frozen=True, slots=True)
class Mention:
    """A tool's name in a sentence."""

    name: str
    start: int
    end: int


class Vocabulary:
    """The tools that are known by name, in the order in which they came."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = tuple(dict.fromkeys(name for name in names if name))
        self._spellings: dict[str, list[str]] = {}
        for name in self.names:
            for key in {fold(name), fold(name.rsplit("__", 1)[-1]), fold(name.rsplit(".", 1)[-1])}:
                self._spellings.setdefault(key, []).append(name)

    def spellings(self, name: str) -> list[str]:
        """Return the name and every known tool that is meant by it: another case, another separator, a prefix."""
        return list(dict.fromkeys([name, *self._spellings.get(fold(name), ())]))

    def knows(self, name: str) -> bool:
        """Whether the tool was declared or seen."""
        return fold(name) in self._spellings

    def about(self, stems: Iterable[str]) -> list[str]:
        """Return the known tools that have a word of their name begin like one of the stems."""
        beginnings = tuple(dict.fromkeys(stem for stem in stems if len(stem) >= 3))
        return [
            name for name in self.names if beginnings and any(word.startswith(beginnings) for word in words_of(name))
        ]

    def mentions(self, text: str) -> list[Mention]:
        """Return the tools that a sentence names, in order; the text must have its quotes masked already."""
        first: dict[str, Mention] = {}
        for mention in self._candidates(text):
            first.setdefault(mention.name, mention)
        return list(first.values())

    def _candidates(self, text: str) -> Iterator[Mention]:
        coded = {match.start(1): match.end(1) for match in _CODE.finditer(text)}
        previous = raw = ""
        matches = list(_NAME.finditer(text))
        for number, match in enumerate(matches):
            name = match.group()
            following = matches[number + 1].group().lower() if number + 1 < len(matches) else ""
            is_code = coded.get(match.start()) == match.end()
            listed = raw in {"tools", "functions"} and following in {"and", "or"} and _continues(matches, number + 2)
            raw = name.lower()
            if listed or self._is_tool(name, previous, following, is_code=is_code):
                yield Mention(name, match.start(), match.end())
                continue  # in "use a and b" the verb is still the one before
            if name.lower() not in {"the", "a", "an", "or", "and", "tool", "tools"}:
                previous = name.lower()

    def _is_tool(self, name: str, previous: str, following: str, *, is_code: bool) -> bool:
        if self.knows(name):
            # A tool called "search" is only meant where it is used like a name.
            return is_code or looks_like_name(name) or previous in _CALLS or following in _AFTER
        if is_code:
            return looks_like_name(name) or previous in _CALLS
        if not looks_like_name(name):
            # "the calculator tool"
            return following in {"tool", "function"} and name.islower() and name not in _PLAIN and previous in _VERBS
        return not name.lower().endswith(_NOT_TOOLS) or previous in _VERBS


def _continues(matches: Sequence[re.Match[str]], number: int) -> bool:
    return number < len(matches) and looks_like_name(matches[number].group())


def looks_like_name(name: str) -> bool:
    """Whether a word is written like the name of a function: snake_case or camelCase."""
    inner = name.strip("_.")
    if "_" in inner:
        return True
    return inner[:1].islower() and any(char.isupper() for char in inner)


def declared_in(prompt: str) -> list[str]:
    """Return the tools that the prompt itself declares: as JSON, or in a line "Tools: a, b, c"."""
    names = [match.group(1) for match in _DECLARED.finditer(prompt) if match.group(1) not in {"function", "string"}]
    for match in _LISTED.finditer(prompt):
        for part in match.group(1).replace(" and ", ",").split("."):
            listed = [name.strip(" `") for name in part.split(",")]
            if not all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,99}", name) for name in listed if name):
                break
            names += [name for name in listed if name]
    return list(dict.fromkeys(names))
