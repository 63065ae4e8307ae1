"""Patterns over names and texts: tool globs and linear-time regular expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import re2
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stream_guard.language.lookalikes import HIDDEN, see_through
from stream_guard.language.standard_classes import STANDARD_CLASSES
from stream_guard.language.tool_words import readings
from stream_guard.model import Json

TOOL_CLASSES = "tool_classes"  # the key under which a policy's classes reach the validators

_GLOB = frozenset("*?|()")
_BY_WORDS = "~"  # before a glob: it is matched against the readings of a name (``tool_words``)
_BUT = "!"  # before a name or a glob: these tools are not meant
_KEPT: Final = 10_000  # characters of a text that is kept with what was found in it
# One more pattern of each set tells which texts of ASCII need a second look.
_HIDDEN_SIGN = f"[{HIDDEN}]"
# What re2 leaves out because it cannot run in linear time, or writes in another way.
_ADVICE = (
    ("(?=", "look-ahead is not linear; match what follows and test it with a second condition"),
    ("(?!", "look-ahead is not linear; write the exception as `unless`"),
    ("(?<=", "look-behind is not linear; match what precedes it as part of the pattern"),
    ("(?<!", "look-behind is not linear; write the exception as `unless`"),
    ("(?P=", "back-references are not linear; compare the two values with a condition"),
    ("\\1", "back-references are not linear; compare the two values with a condition"),
    ("(?>", "atomic groups are not needed here; leave out `?>`"),
    ("++", "possessive repeats are not needed here; leave out the second `+`"),
)


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


@lru_cache(maxsize=128)
def _compile(pattern: str) -> Any:
    """Return the compiled pattern. The package has a cache too, but a slow one."""
    return re2.compile(pattern, _options())


SetMatch: TypeAlias = Callable[[bytes], list[int] | None]
"""Returns the places of the patterns of a set that occur in a text."""


class Regex:
    """A regular expression that runs in linear time, checked when the policy is loaded."""

    __slots__ = ("_compiled", "_match", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._match: SetMatch | None = None  # made when first asked: many patterns are only searched for
        try:
            self._compiled = _compile(pattern)
        except (re2.error, UnicodeEncodeError) as error:
            advice = next((text for part, text in _ADVICE if part in pattern), "")
            raise ValueError(f"{_reason(error)}{'; ' + advice if advice else ''}") from None

    def search(self, text: str) -> str | None:
        """Return the first piece of ``text`` that matches, or None.

        A text that does not match as it is written is searched as a reader sees it (``lookalikes``).
        """
        found = self._find(text)
        if found is None and (seen := see_through(text)) is not text:
            found = self._find(seen)
        return found

    def _find(self, text: str) -> str | None:
        try:
            match = self._compiled.search(text)
        except UnicodeEncodeError:  # a lone surrogate, which only in-process callers can pass
            match = self._compiled.search(text.encode("utf-8", "replace").decode())
        return None if match is None else str(match.group())

    def replace(self, text: str, other: str) -> str:
        """Return the text with every piece that matches replaced, as it is written."""
        return str(self._compiled.sub(lambda _found: other, text.encode("utf-8", "replace").decode()))

    def occurs_in(self, text: str) -> bool:
        """Whether a piece of ``text`` matches, as it is written or as a reader sees it; faster than ``search``."""
        if self._occurs_as_written(text):
            return True
        seen = see_through(text)
        return seen is not text and self._occurs_as_written(seen)

    def _occurs_as_written(self, text: str) -> bool:
        if self._match is None:
            self._match = _compile_set((self.pattern,))  # a set of one only says whether it occurs, and not where
        return bool(self._match(text.encode("utf-8", "replace")))

    def __reduce__(self) -> tuple[type[Regex], tuple[str]]:
        return Regex, (self.pattern,)  # what is found out for this process cannot be copied

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regex) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(value: str) -> Regex:
            try:
                return cls(value)
            except ValueError as error:
                raise PydanticCustomError(
                    "regex", "not a usable regular expression: {why}", {"why": str(error)}
                ) from None

        return core_schema.no_info_after_validator_function(
            build,
            core_schema.str_schema(strict=True),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda regex: regex.pattern),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "description": "RE2 regular expression"}


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else str(error)
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


class TextSet:
    """Many text patterns looked for in one pass; the cost hardly grows with their number."""

    __slots__ = ("_count", "_last", "_match", "match_nothing")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._match = _compile_set((*patterns, _HIDDEN_SIGN))
        self._count = len(patterns)
        self.match_nothing = bool(self._match(b""))  # whether some pattern occurs even in an empty text
        self._last: tuple[str, list[int]] = "", _search(self._match, self._count, "")

    def search(self, text: str) -> list[int]:
        """Return the numbers of the patterns that occur in ``text``, in no particular order.

        They occur as it is written, or as a reader sees it (``lookalikes``). The list is not the caller's to change.
        """
        known, found = self._last  # an agent often answers with the text of its model
        if text != known:
            found = _search(self._match, self._count, text)
            if len(text) <= _KEPT:
                self._last = text, found
        return found


def _search(match: SetMatch, hidden: int, text: str) -> list[int]:
    """Return the places in a set of the patterns that occur; ``hidden`` is that of signs nobody sees."""
    written = text.encode("utf-8", "replace")
    found: list[int] | None = match(written)
    if len(written) == len(text) and (not found or hidden not in found):  # the usual text, which is ASCII
        return found or []
    seen: list[int] = match(see_through(text).encode("utf-8", "replace")) or []
    return list({*(found or ()), *seen} - {hidden})


@lru_cache(maxsize=32)
def _compile_set(patterns: tuple[str, ...]) -> SetMatch:
    """Return what searches for a set, cached: the rules of one policy are arranged more than once."""
    made = re2.Set.SearchSet(_options())
    for pattern in patterns:
        made.Add(pattern)
    made.Compile()
    match: SetMatch = made.Match
    return match


def literal(text: str) -> str:
    """Return the regular expression that matches exactly ``text``."""
    escaped: str = re2.escape(text)
    return escaped


class ToolPattern:
    """Which tools a rule is about: names, globs (``mcp__*``), alternatives (``a|b``), classes (``@write``).

    ``~send_*mail*`` is about every name whose words read so: ``send_email``, ``GmailSendEmail``, ``email.send``.
    ``!clear_filter`` takes tools out, of a class and of all that hold it.
    """

    __slots__ = ("_but", "_by_words", "_globs", "_memo", "expanded", "names", "text")

    def __init__(self, patterns: str | Iterable[str], classes: Mapping[str, Sequence[str]] | None = None) -> None:
        listed = [patterns] if isinstance(patterns, str) else list(patterns)
        self.text = "|".join(listed)
        members = list(_expand(listed, classes or {}, ()))  # classes are replaced by their members
        self.expanded = tuple(name for name in members if not name.startswith(_BUT))
        excepted = [name.removeprefix(_BUT) for name in members if name.startswith(_BUT)]
        if excepted and not self.expanded:
            raise ValueError(f'"{self.text}" only takes tools out; name those that are meant before it')
        self._but = ToolPattern(excepted, classes) if excepted else None
        by_words = [name[1:] for name in self.expanded if name.startswith(_BY_WORDS)]
        literal_ones = [name for name in self.expanded if not name.startswith(_BY_WORDS)]
        self.names = frozenset(name for name in literal_ones if not _GLOB & set(name))
        self._globs = [_whole(name) for name in literal_ones if _GLOB & set(name)]
        self._by_words = [_whole(name) for name in by_words]
        self._memo: dict[str, bool] = {}

    @property
    def exact(self) -> frozenset[str] | None:
        """The names it matches, when there is a closed list of them; else None."""
        return None if self._globs or self._by_words or self._but is not None else self.names

    def matches(self, tool: str) -> bool:
        """Whether the pattern matches the tool."""
        if self._but is None:
            if tool in self.names:
                return True
            if not self._globs and not self._by_words:
                return False
        known = self._memo.get(tool)
        if known is None:
            # Tool names are the agent's text: hallucinated ones must not grow this without bound.
            if len(self._memo) >= 1024:
                self._memo.clear()
            known = self._memo[tool] = self._find(tool)
        return known

    def why(self, tool: str) -> str:
        """Return why the pattern matches the tool, in a few words; nothing where it does not."""
        if not self.matches(tool):
            return ""
        if tool in self.names:
            return "it is listed"
        for part in self.expanded:
            if part.startswith(_BY_WORDS):
                found = _read_as(tool, _whole(part[1:]))
                if found is not None:
                    return f"it reads {found}, which is {_alternative(part[1:], found)}"
            elif part == "*":
                return "every tool is, but for those that are taken out"
            elif _GLOB & set(part) and _whole(part).search(tool) is not None:
                return f"its name is {_alternative(part, tool)}"
        return ""

    def _find(self, tool: str) -> bool:
        if self._but is not None and self._but.matches(tool):
            return False
        if tool in self.names or any(glob.search(tool) is not None for glob in self._globs):
            return True
        return any(_read_as(tool, glob) is not None for glob in self._by_words)

    def __repr__(self) -> str:
        return f"ToolPattern({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolPattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(value: Json, info: ValidationInfo) -> ToolPattern:
            if isinstance(value, ToolPattern):
                return value
            if not isinstance(value, str) and not (
                isinstance(value, list) and value and all(isinstance(item, str) for item in value)
            ):
                raise PydanticCustomError("tool_pattern", "expected a tool name, a glob, or a list of them")
            try:
                return cls(value, (info.context or {}).get(TOOL_CLASSES))
            except ValueError as error:
                raise PydanticCustomError("tool_pattern", "{why}", {"why": str(error)}) from None

        return core_schema.with_info_plain_validator_function(
            build,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda pattern: pattern.text),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        name = {"type": "string"}
        return {"anyOf": [name, {"type": "array", "items": name, "minItems": 1}]}


def classes_of(tool: str, classes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the classes that a tool is in, of a policy and of every policy, each with the reason."""
    names = dict.fromkeys((*classes, *STANDARD_CLASSES))
    return {name: why for name in names if (why := ToolPattern(f"@{name}", classes).why(tool))}


def _expand(patterns: Iterable[str], classes: Mapping[str, Sequence[str]], inside: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        if not pattern.startswith("@"):
            yield pattern
            continue
        name = pattern[1:]
        members = classes.get(name) if name not in inside else None
        if members is not None:
            yield from _expand(members, classes, (*inside, name))
        # One line that only takes tools out is about the class that every policy knows.
        if name in STANDARD_CLASSES and all(member.startswith(_BUT) for member in members or ()):
            yield from _expand(STANDARD_CLASSES[name], STANDARD_CLASSES, ())
        elif members is not None:
            continue
        elif name in inside:
            raise ValueError(f'tool class "@{name}" contains itself')
        else:
            known = ", ".join(f"@{key}" for key in sorted({*classes, *STANDARD_CLASSES}))
            raise ValueError(f'unknown tool class "@{name}"; there are {known}, and more can stand under tool_classes')


def _read_as(tool: str, glob: Regex) -> str | None:
    """Return the reading of a name that a pattern matches."""
    return next((reading for reading in readings(see_through(tool)) if glob.search(reading) is not None), None)


def _alternative(glob: str, text: str) -> str:
    """Return the one of a pattern's alternatives that matches; the whole pattern where they stand in brackets."""
    parts = [] if "(" in glob else glob.split("|")
    return next((part for part in parts if _whole(part).search(text) is not None), glob)


def _whole(glob: str) -> Regex:
    return Regex(f"(?s)^(?:{_glob_to_regex(glob)})$")


def _glob_to_regex(glob: str) -> str:
    special = {"*": ".*", "?": ".", "|": "|", "(": "(", ")": ")"}
    # What is a letter or a digit is so in a pattern too; an engine asks this of every short text of its policy.
    return "".join(special.get(char) or (char if char.isalnum() else literal(char)) for char in glob)
