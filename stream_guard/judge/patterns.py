"""Patterns over names and texts: tool globs and linear-time regular expressions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import re2
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stream_guard.judge.model import Json

# Each Latin letter, and what passes for it: Cyrillic, Greek, Armenian, Cherokee and Latin letters outside ASCII.
_IMITATIONS: Final = {
    "a": "аɑα",
    "b": "ƅЬ",
    "c": "сϲᴄ",
    "d": "ԁɗ",
    "e": "еҽɛ℮",
    "g": "ɡԍց",
    "h": "һհɦ",
    "i": "іıɩιӏΙ",
    "j": "јϳ",
    "k": "кκ",
    "l": "ⅼӀǀ",
    "n": "ոռη",
    "o": "оοօσ",
    "p": "рρ",
    "q": "ԛգ",
    "r": "гᴦ",
    "s": "ѕꜱƽ",
    "t": "тτ",
    "u": "υսʋ",
    "v": "ѵνᴠ",
    "w": "ԝաѡᴡ",
    "x": "хχ",
    "y": "уγүყ",
    "z": "ᴢʐ",
    "A": "АΑᎪ",
    "B": "ВΒᏴ",
    "C": "СϹᏟ",
    "D": "Ꭰ",
    "E": "ЕΕᎬ",
    "F": "ϜҒ",
    "G": "Ԍ",
    "H": "НΗᎻ",
    "I": "ІӀΙ",
    "J": "ЈᎫ",
    "K": "КΚᏦ",
    "L": "Ꮮ",
    "M": "МΜᎷ",
    "N": "Ν",
    "O": "ОΟՕ",
    "P": "РΡᏢ",
    "R": "Ꭱ",
    "S": "ЅՏᏚ",
    "T": "ТΤᎢ",
    "U": "Ս",
    "V": "ѴᏙ",
    "W": "ԜᎳ",
    "X": "ХΧ",
    "Y": "УΥҮ",
    "Z": "ΖᏃ",
    "-": "‐‑‒–—−",
    "_": "ˍ",
}
_FOLDED: Final = {ord(sign): letter for letter, signs in reversed(_IMITATIONS.items()) for sign in signs}
_SIGNS: Final = "".join(map(chr, sorted(_FOLDED)))
_SIGNED_WORD: Final = re.compile(rf"(?:[A-Za-z0-9_]*[{re.escape(_SIGNS)}])+[A-Za-z0-9_]*")
_LATIN: Final = re.compile("[A-Za-z]")
# Controls that separate no words, marks of direction, joiners, soft hyphens, fillers, selectors of variants and tags.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)

_NUL: Final = "\x00"
_BACKSPACE: Final = "\x08"
_DELETE: Final = "\x7f"
HIDDEN: Final = _NUL + _BACKSPACE + _DELETE
"""The signs of ASCII that hide in a word. Its other invisible signs separate words."""

_LONGEST_KEPT: Final = 100_000  # characters of a text that is kept
_last: Final = [("", "")]  # the text that was looked through last, and what was seen: many rules ask about the same one


def see_through(text: str) -> str:
    """Return the text in NFKC, without invisible signs, and with imitated letters in words that are partly Latin.

    A plain text comes back as it is, the same object.
    """
    if text.isascii() and _NUL not in text and _BACKSPACE not in text and _DELETE not in text:
        return text
    written, seen = _last[0]
    if written != text:
        if text.isascii():  # it is in NFKC, and imitates nothing
            seen = _INVISIBLE.sub("", text)
        else:
            seen = _SIGNED_WORD.sub(_fold_word, _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))
        if len(text) <= _LONGEST_KEPT:
            _last[0] = (text, seen)
    return seen


def fold_all(text: str) -> str:
    """Return the text with every imitation folded, also in words without a Latin letter: for names, not for prose."""
    return see_through(text).translate(_FOLDED)


def _fold_word(match: re.Match[str]) -> str:
    word = match.group()
    return word.translate(_FOLDED) if _LATIN.search(word) else word


def _doing(verbs: str) -> str:
    """Return the pattern of names whose verb is one of these, with or without a thing behind it."""
    return "~" + "|".join(f"{verb}|{verb}_*" for verb in verbs.split())


_LOOK: Final = "(find|get|lookup|look_up|search|fetch|retrieve|view|show|read|check|list|query)"
_PERSON: Final = (
    "(user|customer|client|patient|member|guest|passenger|traveler|traveller|subscriber|student|employee|resident"
    "|contact|caller|person|citizen|tenant|policyholder|applicant|beneficiary)"
)
_RECORD: Final = (
    "(account|profile|order|reservation|booking|ticket|appointment|claim|subscription|identity|chart|case"
    "|contract|loan|prescription|shipment|invoice|event|meeting|visit|membership|delivery|rental|enrollment|registration)"
)
_MONEY: Final = "(money|payment|fund|payout|refund|reimbursement|credit|wire|deposit|donation|remittance)"

_LOOKING_ON: Final = (
    "get list read search find lookup view show query check verify validate count calculate compute describe inspect "
    "compare think summarize summarise login logout authenticate"
)

STANDARD_CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "read": (
        _doing(
            "get list read search find lookup fetch view show query check browse describe count grep glob look load "
            "retrieve inspect summarize summarise preview examine monitor scan"
        ),
    ),
    "delete": (_doing("delete remove erase wipe purge empty clear destroy drop trash discard unlink truncate"),),
    "write": (
        "@delete",
        _doing(
            "create update modify edit write cancel add set insert replace move copy rename rebook reschedule exchange "
            "change close assign apply patch reset approve reject place transfer merge commit revoke grant enable "
            "disable deactivate activate archive restore rotate register enroll save store upsert overwrite append "
            "attach detach lock unlock book schedule order return import submit install uninstall deploy"
        ),
    ),
    "egress": (
        _doing(
            "send forward reply email mail post publish share invite upload push tweet notify broadcast transmit "
            "dispatch deliver export"
        ),
    ),
    "money": (
        _doing("pay refund reimburse purchase buy withdraw disburse charge checkout"),
        f"~(send|transfer|make|create|issue|process|schedule|submit|approve|release|give)_*{_MONEY}*",
        "~place_order*|place_*_order*|*bank_transfer*|wire_*|payout*|schedule_transaction*|create_charge*|issue_*credit*",
    ),
    # Everything that does more than look, whatever it is called: also to open a page or a file from the net.
    "act": ("*", f"!{_doing(_LOOKING_ON)}"),
    "identify": (
        f"~{_LOOK}_*{_PERSON}*",
        f"~{_LOOK}_*{_RECORD}*",
        "~lookup_*|verify_*|authenticate*|identify|identify_*|confirm_identity*",
    ),
}
"""What each class stands for."""


_LONGEST: Final = 200  # characters of a name that are read; the rest is no name
_MOST: Final = 16  # words of a name that are read
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PARTS: Final = re.compile(r"__|[./:]")  # between a server or a namespace and the tool's own name


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What a word says is done.
_LOOKING: Final = _listed(
    "get list read search find lookup fetch view show query check browse describe count calculate compute grep glob "
    "look load retrieve inspect summarize summarise verify validate preview estimate think analyze analyse compare "
    "explain identify authenticate examine monitor watch see scan detect predict recommend suggest confirm quote ask "
    "request propose plan prepare draft simulate track test evaluate assess review audit generate translate convert "
    "parse format extract classify select choose sort filter resolve match discuss answer tell say remember recall "
    "wait draw plot render measure has is can does login logout"
)
_ACTING: Final = _listed(
    "create update modify edit write delete remove cancel add set insert replace move copy rename rebook reschedule "
    "exchange change close assign apply patch clear reset approve reject place transfer merge commit send forward "
    "reply upload publish push notify broadcast tweet invite share pay refund reimburse purchase buy withdraw "
    "disburse charge checkout erase wipe purge empty destroy drop trash discard unlink revoke grant enable disable "
    "deactivate activate terminate stop start restart kill launch install uninstall deploy execute run exec eval "
    "invoke submit click input fill follow unfollow subscribe unsubscribe accept decline block unblock ban mute "
    "archive restore rotate register enroll download save store import export sync post upsert overwrite truncate "
    "append attach detach lock unlock open transmit dispatch deliver email mail issue process make give provide book "
    "order schedule return star fork join redeem override bypass force"
)
_VERBS: Final = _LOOKING | _ACTING
# As often the name of a thing: a later verb counts too. order_cancel cancels.
_THINGS_TOO: Final = _listed(
    "order book email mail post issue process return charge exchange share block schedule set run store drop patch "
    "commit push trash archive place change start stop open purchase input refund"
)
# At the end of a name that begins with such a thing, they say that it is looked at: order_status, refund_policy.
_NAMED: Final = _THINGS_TOO - {"post", "set"}
_SAID_OF_THINGS: Final = _listed("status details detail info information history policy summary log logs lookup id ids")
# Things that stand before the verb in names like email.send. The name of a product is none: AcmeEdit edits no acme.
# Nor are tasks and plans: coding agents keep lists of their own in TaskUpdate, and change nothing outside by it.
_THINGS: Final = _THINGS_TOO | _listed(
    "account address alert answer appointment bill booking branch calendar card cart cell channel chat client comment "
    "contact contract customer database document draft event file flight folder form friend function group image "
    "instance invoice item job key label lead letter link loan member message meeting money note notification object "
    "page password patient payment permission photo product profile project record refund reminder repo "
    "repository reservation review role room row rule secret server session setting shipment subscription table "
    "team text ticket token transaction trip user video visit volume webhook"
)
_IRREGULAR: Final = {
    "sent": "send", "wrote": "write", "written": "write", "paid": "pay", "bought": "buy", "made": "make",
    "given": "give", "found": "find", "deletion": "delete", "removal": "remove", "creation": "create",
    "cancellation": "cancel", "modification": "modify", "transmission": "transmit", "delivery": "deliver",
}  # fmt: skip


def _inflections() -> dict[str, str]:
    """Return the forms of every verb, and what each is a form of."""
    forms: dict[str, str] = {}
    for verb in sorted(_VERBS):
        short, doubled = verb.removesuffix("e"), verb + verb[-1]
        ends = f"{verb[:-1]}ie" if verb.endswith("y") and verb[-2] not in "aeiou" else verb
        made = {f"{ends}s", f"{verb}es", f"{short}ed", f"{ends}d", f"{short}ing", f"{doubled}ed", f"{doubled}ing"}
        # The plural of a thing is no form of a verb: send_orders, list_emails.
        forms |= {form: verb for form in made if form not in _VERBS and form.removesuffix("s") not in _THINGS_TOO}
    return forms | _IRREGULAR


_FORMS: Final = {**_inflections(), **{verb: verb for verb in _VERBS}}


def tool_words(name: str) -> list[str]:
    """Return the words of a tool's name in lower case: split at capitals, digits and everything that is neither."""
    return [word.lower() for word in _WORD.findall(name[:_LONGEST])][:_MOST]


def verb_of(word: str) -> str | None:
    """Return the verb that a word in lower case is a form of; None where it is none that says what is done."""
    return _FORMS.get(word)


@lru_cache(maxsize=4096)
def readings(name: str) -> tuple[str, ...]:
    """Return the ways to read a name, each once."""
    whole = tool_words(name)
    own = tool_words(_PARTS.split(name[:_LONGEST])[-1])
    written = name[:_LONGEST].lower()
    found = [*([] if written == "_".join(whole) else [written]), *_read(whole)]
    if own != whole:
        found += _read(own)
    return tuple(dict.fromkeys(found))


def main_reading(name: str) -> str:
    """Return the reading that the spellings of a name share: from its verb on, with the verb before the thing."""
    whole, own = tool_words(name), tool_words(_PARTS.split(name[:_LONGEST])[-1])
    known = readings(name)
    if len(whole) > 1 and whole[-1] in _VERBS - _THINGS_TOO:  # email.send, order_cancel
        things = [word for word in whole[:-1] if word.removesuffix("s") in _THINGS]
        swapped = "_".join([whole[-1], *things])
        if things and swapped in known:
            return swapped
    start = next((place for place, word in enumerate(own) if word in _FORMS), None)
    found = "_".join(own if start is None else [_FORMS[own[start]], *own[start + 1 :]])
    return found if found in known else known[-1] if known else ""


def _read(words: list[str]) -> Iterator[str]:
    if words and words[0] in _NAMED and words[-1] in _SAID_OF_THINGS:
        words = ["get", *words]
    yield "_".join(words)
    for place, word in enumerate(words):
        verb = _FORMS.get(word)
        if verb is None:
            continue
        if word in _NAMED and words[-1] in _SAID_OF_THINGS:
            yield "_".join(["get", *words[place:]])
            return
        yield "_".join([verb, *words[place + 1 :]])
        things = [thing for thing in words[:place] if thing.removesuffix("s") in _THINGS]
        if things:  # email.send
            yield "_".join([verb, *things, *words[place + 1 :]])
        if word not in _THINGS_TOO:
            return


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

    def _find(self, tool: str) -> bool:
        if self._but is not None and self._but.matches(tool):
            return False
        if tool in self.names or any(glob.search(tool) is not None for glob in self._globs):
            return True
        if not self._by_words:
            return False
        ways = readings(see_through(tool))
        return any(glob.search(way) is not None for glob in self._by_words for way in ways)

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


def _whole(glob: str) -> Regex:
    return Regex(f"(?s)^(?:{_glob_to_regex(glob)})$")


def _glob_to_regex(glob: str) -> str:
    special = {"*": ".*", "?": ".", "|": "|", "(": "(", ")": ")"}
    # What is a letter or a digit is so in a pattern too; an engine asks this of every short text of its policy.
    return "".join(special.get(char) or (char if char.isalnum() else literal(char)) for char in glob)
