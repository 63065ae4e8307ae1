"""What arguments must be: within a bound, one of some values, with or without a text, given, from somewhere."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, words_of
from stream_guard_compliance.reading.composed.acts import Parts, Polarity, act_of, is_narrowed_behind
from stream_guard_compliance.reading.symbols import COUNTED, is_command
from stream_guard_compliance.reading.values import Reading, Token, word_set

# Bounds in words: at most, no more than, not over, capped at, between two numbers, at least.

MONEY: Final = word_set("percent eur usd dollars euros dollar euro gbp pounds")
_CAPS: Final = word_set("capped limited restricted cap limit max maximum")
_ONE: Final = {"once": 1.0, "twice": 2.0, "thrice": 3.0, "single": 1.0}


@dataclass(frozen=True, slots=True)
class Bound:
    """How large or how many something may be; None where there is no bound on that side."""

    least: float | None = None
    most: float | None = None
    strict: bool = False  # the bound itself is too much: "under 5"


def number_of(token: Token) -> float | None:
    """Return the number that a word says."""
    low = token.low
    if low in _ONE:
        return _ONE[low]
    if token.symbol != "NUM":
        return None
    if low in COUNTED:
        return float(COUNTED[low])
    digits = re.sub(r"[^\d.]", "", low).rstrip(".")
    return float(digits) if digits else None


def bound_of(tokens: Sequence[Token], polarity: Polarity) -> Bound | None:
    """Return the one bound that words set, or None where they set none or several."""
    solid = _without_lesser([token for token in tokens if token.symbol])
    between = _between(solid)
    if between is not None:
        return between if polarity != "not" else None
    found = [bound for at in range(len(solid)) if (bound := _at(solid, at, polarity)) is not None]
    if len(found) == 2:  # "at least 1 and at most 12"
        low, high = sorted(found, key=lambda bound: bound.most is not None)
        both = low.most is None and high.most is not None and high.least is None
        return Bound(low.least, high.most, strict=high.strict) if both else None
    return found[0] if len(found) == 1 else None


def _without_lesser(solid: Sequence[Token]) -> list[Token]:
    """Return "one or two" as two: the larger is the bound."""
    found: list[Token] = []
    for token in solid:
        if token.symbol == "NUM" and [one.symbol for one in found[-2:]] == ["NUM", "SEP"] and found[-1].low == "or":
            del found[-2:]
        found.append(token)
    return found


def _between(solid: Sequence[Token]) -> Bound | None:
    for at, token in enumerate(solid):
        if token.symbol == "RANGE":
            low, high = (float(part) for part in re.split(r"\D+", token.text)[:2])
            return Bound(low, high)
        following = solid[at + 1 : at + 4]
        if token.low in {"between", "from"} and [one.symbol for one in following] == ["NUM", "SEP", "NUM"]:
            return Bound(number_of(following[0]), number_of(following[2]))
    return None


def _at(solid: Sequence[Token], at: int, polarity: Polarity) -> Bound | None:
    number = number_of(solid[at])
    if number is None:
        return None
    before = list(solid[max(0, at - 2) : at])
    symbols = {token.symbol for token in before[-1:]}
    after = solid[at + 1 : at + 3]
    exceeds = bool(symbols & {"EXCEED", "AMOUNT", "MORETHAN"})
    if exceeds:
        return Bound(most=number) if polarity == "not" else None
    if (
        "ATMOST" in symbols
        or any(token.low.partition(" ")[0] in _CAPS for token in before)
        or any(one.symbol == "ORFEWER" for one in after)
        or solid[-1].symbol == "ATMOST"
    ):
        strict = any(token.low in {"under", "below"} for token in before)
        if strict and polarity == "not":
            return Bound(least=number)  # "not below 15"
        return Bound(most=number, strict=strict) if polarity != "not" or "ATMOST" in symbols else None
    if "FEWER" in symbols:
        return Bound(least=number) if polarity == "not" else Bound(most=number, strict=True)
    return Bound(least=number) if "ATLEAST" in symbols and polarity != "not" else None


# What arguments must be: within a bound, one of some values, with or without a text, there or not there.

_WHETHER_GIVEN: Final = "composed: whether an argument is given"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,60}")
_STARTS: Final = word_set("start starts begin begins prefixed")
_ENDS: Final = word_set("end ends finish finishes sign signed")
_HAS: Final = word_set("contain contains include includes have has including containing carry mention")
_UNITS: Final = {"c": "chars", "w": "words"}
_SPEAKS: Final = frozenset(("DISCLOSE", "REPLY"))
_PUTS: Final = word_set("put fill set pass provide use add specify include send")
_SAYS: Final = word_set("say says saying mention tell output print repeat quote promise respond reply answer state")


def read_argument(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return what a statement says about an argument."""
    if any(one.relation != "with" for one in parts.others):
        return None
    tokens = (*parts.main.tokens, *(token for one in parts.others for token in one.tokens if token.symbol == "TOOL"))
    args = arguments_in(tokens)
    tools = tools_in([token for token in tokens if token.symbol])
    bound = bound_of(tokens, parts.polarity)
    if bound is not None and is_narrowed_behind(tokens, _NUMBERS):
        return None
    if bound is not None and not args and not tools:
        listed = _members(tokens, bound)
        if listed is not None:
            return listed
    if bound is not None:
        return _bounded(tokens, args, tools, bound, catalogue)
    if parts.polarity == "not":
        return _forbidden(tokens, args, tools)
    return _valued(parts, args, tools, catalogue)


def _members(tokens: Sequence[Token], bound: Bound) -> Reading | None:
    """A bound on how many of something one thing has: "each booking can have at most five passengers"."""
    solid = [token for token in tokens if token.symbol]
    each = solid[0].symbol == "EACH" or tokens[0].low in {"a", "an"}
    has = any(word in {"have", "has", "contain", "include", "hold", "list"} for token in tokens for word in [token.low])
    thing = solid[-1]
    many = thing.symbol in {"W", "PERSON"} and thing.low.endswith("s") and thing.low.isalpha()
    if not each or not has or not many or solid[-2].symbol != "NUM" or bound.most is None or bound.least is not None:
        return None
    return replace(_made((thing.low,), (), bound, "size"), guess=True)


def tools_in(solid: Sequence[Token]) -> tuple[str, ...]:
    """Return the tools that are named; one in a list of texts is a text, such as grep between `find` and `cat`."""
    found: list[str] = []
    for at, token in enumerate(solid):
        near = [pair for pair in (solid[max(0, at - 2) : at], solid[at + 1 : at + 3][::-1]) if len(pair) > 1]
        listed = any(text.symbol == "CODE" and mark.symbol == "SEP" for text, mark in near)
        if token.symbol == "TOOL" and not token.described and not listed:
            found.append(token.text)
    return tuple(dict.fromkeys(found))


def arguments_in(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the names of arguments that words have."""
    names = [token.text for token in tokens if token.symbol in {"CODE", "ARGNAME"} and _NAME.fullmatch(token.text)]
    return tuple(dict.fromkeys(names or _plain_names(tokens)))


def _plain_names(tokens: Sequence[Token]) -> list[str]:
    """Return an argument that plain words name: "the reason passed to X", "the subject line"."""
    solid = [token for token in tokens if token.symbol]
    named = any(token.symbol == "TOOL" and not token.described for token in tokens)
    for token, following in itertools.pairwise(solid):
        passed = named and following.low in {"passed", "given", "supplied"}
        beside = following.start - token.end <= 1
        labels = passed or (beside and (following.symbol == "LITWORD" or following.low in {"line", "field"}))
        if token.symbol in {"W", "PHRASE"} and labels and token.low.isalpha():
            return [token.low]
    return _subject_with_values(tokens, solid)


_ARTICLES: Final = frozenset(("the", "a", "an", "every", "each"))


def _subject_with_values(tokens: Sequence[Token], solid: Sequence[Token]) -> list[str]:
    """Return the subject of a list of texts that it must be: "The reason for ... must be "a" or "b""."""
    quotes = sum(token.symbol == "QUOTE" for token in solid)
    at = next((number for number, token in enumerate(solid) if token.symbol == "DUTY"), 0)
    either = any(token.low == "or" for token in solid)
    begins = bool(solid) and tokens[0].low in _ARTICLES and solid[0].symbol == "W"
    return [solid[0].low] if begins and quotes > 1 and either and at and solid[0].low.isalpha() else []


def _bounded(
    tokens: Sequence[Token], args: Sequence[str], tools: tuple[str, ...], bound: Bound, catalogue: Catalogue
) -> Reading | None:
    unit = next((token.low for token in tokens if token.symbol == "UNIT"), "")
    counted = any(token.symbol in {"SESSION", "TURN", "TIMES", "TOOLCALL", "QUESTION", "ATONCE"} for token in tokens)
    if len(args) == 1 and unit[:1] in _UNITS and bound.most is not None:
        return replace(_made((_UNITS[unit[0]],), tools, bound, "length"), described=tuple(args))
    if len(args) == 1 and unit[:1] != "s" and (not counted or "ATONCE" in {token.symbol for token in tokens}):
        listed = any(token.low in {"list", "array", "entries", "items", "elements", "contain"} for token in tokens)
        shape = "size" if listed else "argument"
        return _made(args, tools, bound, shape)
    if unit[:1] in _UNITS and tools and bound.most is not None:
        return _made((_UNITS[unit[0]],), tools, bound, "length")
    money = any(token.low in MONEY or token.text[:1] in "$\u20ac\u00a3" for token in tokens)
    spoken = [token for token in tokens if token.low not in MONEY | _CAPPED and token.symbol not in _AMOUNTS]
    act = act_of(spoken, catalogue)
    if money and act.tools and bound.most is not None and not set(act.left) - _CAPPED:
        unit_of = ("percent",) if any(token.low == "percent" for token in tokens) else ()
        amount = Reading("conditional", act.tools, over=bound.most, described=unit_of, guess=True)
        return replace(amount, details=("the amount",), frame="composed: an amount")
    return None


_AMOUNTS: Final = frozenset(("NUM", "MORETHAN", "AMOUNT", "ATMOST", "EXCEED"))
_CAPPED: Final = word_set("capped limited per more than limit cap amount of")


def _made(items: tuple[str, ...] | Sequence[str], tools: tuple[str, ...], bound: Bound, shape: str) -> Reading:
    return Reading(
        "forbid_arg",
        tuple(items),
        first=tools,
        over=bound.most,
        least=bound.least,
        strict=bound.strict,
        shape=shape,  # type: ignore[arg-type]  # one of three
        frame="composed: a bound of an argument",
    )


def _forbidden(tokens: Sequence[Token], args: Sequence[str], tools: tuple[str, ...]) -> Reading | None:  # noqa: PLR0911  # one for each sort
    """Texts that must not stand in arguments, and arguments that must not be given."""
    if any(token.symbol in _SPEAKS or token.low in _SAYS | {"call", "invoke"} for token in tokens) and not tools:
        return None
    words = {word for token in tokens for word in token.low.split()}
    empty = "EMPTY" in {token.symbol for token in tokens}
    if empty and len(args) == 1:
        return Reading("forbid_arg", tuple(args), first=tools, shape="filled", frame=_WHETHER_GIVEN)
    inverted = any(token.low in _INVERTS or token.symbol == "OTHERTHAN" for token in tokens)
    if inverted:
        outside = any(token.low == "outside" for token in tokens)
        return _outside(tokens, tools) if outside else None
    placed = _placed(tokens, args, tools)
    if placed is not None:
        return placed
    if any(one.symbol in _MARKED and two.low in {"that", "which", "whose"} for one, two in itertools.pairwise(tokens)):
        return None  # "a `path` that the user gave you": not every one
    tools, through = _by_way_of(tokens, tools)
    bare = bool(tools) and _is_bare_list(tokens)
    literals = through + tuple(
        token.text
        for token in tokens
        if token.symbol in {"CODE", "LITERAL", "FILE"} and (bare or _is_distinct(token.text))
    )
    marked = {token.text for token in tokens if token.symbol in {"CODE", "ARGNAME"}}
    plain = tuple(name for name in args if name not in literals and (name in marked or not literals))
    if (literals or plain) and (is_narrowed_behind(tokens, _MARKED) or not (through or bare or _is_done_to(tokens))):
        return None
    if literals and not plain:
        return Reading("forbid_arg", literals, first=tools, shape="literal", frame="composed: a text in arguments")
    if (
        len(plain) == 1
        and not literals
        and (words & _PUTS)
        and (_is_labelled(tokens) or words & {"put", "fill", "pass"})
    ):
        return Reading("forbid_arg", plain, first=tools, shape="absent", frame=_WHETHER_GIVEN)
    return _words_of_a_command(tokens, plain if not literals and not tools else (), alone=not (plain or literals))


def _words_of_a_command(tokens: Sequence[Token], plain: tuple[str, ...], *, alone: bool) -> Reading | None:
    """Words that no command may have: marked, or in capitals: "INSERT, UPDATE or DROP"."""
    words = {word for token in tokens for word in token.low.split()}
    capitals = _capitals(tokens)
    if len(capitals) > 1 and alone and words & (_CONTAINS | _DONE):
        return Reading("forbid_arg", capitals, shape="words", frame="composed: words of a command")
    listed = any(token.symbol == "FORBIDDEN" for token in tokens) or (len(plain) > 1 and all(map(str.isupper, plain)))
    if plain and listed:
        return Reading("forbid_arg", plain, shape="words", frame="composed: words of a command")
    return None


def _placed(tokens: Sequence[Token], args: Sequence[str], tools: tuple[str, ...]) -> Reading | None:
    """A text that an argument must not begin with, end with or have."""
    words = {word for token in tokens for word in token.low.split()}
    place = "start" if words & _STARTS else "end" if words & (_ENDS | _CLOSES) else "in" if words & _CONTAINS else ""
    named = [token.text for token in tokens if token.symbol in {"QUOTE", "CODE", "LITERAL"} and token.text not in args]
    texts = tuple(named) or tuple(mark for word, mark in MARKS.items() if word in words)
    if len(args) != 1 or not place or not texts or is_narrowed_behind(tokens, _MARKED | {"QUOTE"}):
        return None
    at = "" if place == "in" else place
    return Reading(
        "forbid_arg",
        texts,
        first=tools,
        described=tuple(args),
        shape="lacks",
        place=at,  # type: ignore[arg-type]  # start or end
        frame="composed: a text that an argument has",
    )


_CLOSES: Final = word_set("close closes")
_CONTAINS: Final = word_set("contain contains include includes have has")
# Words for marks that a text begins or ends with.
MARKS: Final = {
    "slash": "/",
    "question": "?",
    "backslash": "\\",
    "dot": ".",
    "period": ".",
    "tilde": "~",
    "hyphen": "-",
}


def _is_bare_list(tokens: Sequence[Token]) -> bool:
    """Whether texts are only listed: "no `cat >`, no `tee`"."""
    symbols = [token.symbol for token in tokens if token.symbol]
    return symbols[:1] == ["NO"] and set(symbols) <= {"NO", "CODE", "SEP", "LITERAL", "TOOL"}


def _by_way_of(tokens: Sequence[Token], tools: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tools that something must not be done through, and the tools whose names would show it there."""
    via = next((number for number, token in enumerate(tokens) if token.symbol == "VIA"), None)
    if via is None:
        return tools, ()
    by = tuple(token.text for token in tokens[via:] if token.symbol == "TOOL" and token.text in tools)
    return (by, tuple(tool for tool in tools if tool not in by)) if by else (tools, ())


_DONE: Final = word_set(
    "run running use using execute executing pass passing set setting touch access accessing modify skip put navigate "
    "query include including add write edit delete read commit push open visit create install import send place change "
    "make navigating provide specify launch start spawn call issue type download upload move rename remove overwrite "
    "deploy restart kill stop enter submit"
)
_INSIDE: Final = word_set("within inside from under between on behind")


def _is_done_to(tokens: Sequence[Token]) -> bool:
    """Whether a text is what a ban is about, and not where or of what something is: "content within `x`"."""
    at = next((number for number, token in enumerate(tokens) if token.symbol in _MARKED), 0)
    verbs = any(word in _DONE for token in tokens for word in token.low.split())
    forbidden = any(token.symbol == "FORBIDDEN" for token in tokens)
    placed = any(token.low in _INSIDE for token in tokens[max(0, at - 2) : at])
    return (verbs or forbidden) and not placed


_NUMBERS: Final = frozenset(("NUM", "RANGE", "UNIT"))
_MARKED: Final = frozenset(("CODE", "LITERAL", "FILE", "ARGNAME"))
_INVERTS: Final = word_set("outside except beyond without than unless other")


def _outside(tokens: Sequence[Token], tools: tuple[str, ...]) -> Reading | None:
    """No file outside a folder."""
    paths = [token.text for token in tokens if token.symbol == "CODE" and "/" in token.text and " " not in token.text]
    writes = any(token.low.startswith(("writ", "edit", "creat", "modif", "sav", "chang")) for token in tokens)
    if len(paths) != 1 or not (writes or tools) or is_narrowed_behind(tokens, _MARKED):
        return None
    return Reading("forbid_arg", tuple(paths), first=tools, shape="folder", frame="composed: a folder")


def _is_labelled(tokens: Sequence[Token]) -> bool:
    return any(token.symbol == "LITWORD" or token.low in {"field", "fields"} for token in tokens)


def _is_distinct(text: str) -> bool:
    """Whether a text stands in no ordinary prose: a path, a flag, a scheme, a name with a mark in it."""
    marked = any(not char.isalnum() and not char.isspace() for char in text)
    return (
        is_command(text) or (marked and sum(map(str.isalnum, text)) > 1) or re.fullmatch(r"-[a-zA-Z]", text) is not None
    )


def _valued(parts: Parts, args: Sequence[str], tools: tuple[str, ...], catalogue: Catalogue) -> Reading | None:
    """An argument with a value, or a text that it begins with, ends with or has."""
    tokens = parts.main.tokens
    words = {word for token in tokens if token.symbol != "DUTY" for word in token.low.split()}
    pairs = list(itertools.pairwise(tokens))
    begins = bool(words & _STARTS)
    in_code = "".join(token.text for token in tokens if token.symbol == "CODE")
    if parts.polarity == "only" and "/" in in_code and not begins:
        return _outside(tokens, tools)
    quotes = tuple(token.text for token in tokens if token.symbol == "QUOTE")
    paths = tuple(token.text for token in tokens if token.symbol in {"CODE", "LITERAL"} and token.text not in args)
    switched = tuple(token.low for token in tokens if token.low in {"true", "false"})
    texts = quotes or paths or _bare_path(tokens) or switched or _listed_numbers(tokens) or _capitals(tokens)
    subject = [token for token in tokens if token.symbol != "QUOTE" and token.low not in _STARTS | _ENDS | _HAS]
    tools = tools or (act_of(subject, catalogue).tools if not args else ())
    if not texts or not (args or tools) or (parts.polarity == "may" and not args):
        return None
    ends = bool(words & _ENDS) or any(one.low in {"close", "closes"} and two.low == "with" for one, two in pairs)
    place = "start" if words & _STARTS else "end" if ends else "in" if words & _HAS else ""
    if place and parts.polarity != "may" and (parts.polarity != "fact" or place != "in"):
        return Reading(
            "forbid_arg",
            texts,
            first=tools,
            described=tuple(args[:1]),
            shape="has",
            place="" if place == "in" else place,  # type: ignore[arg-type]  # start or end
            frame="composed: a text that an argument has",
        )
    # A list of values says what there is: "`size` is "S", "M" or "L"".
    defines = parts.polarity in {"fact", "may"} and len(texts) > 1 and any(token.low == "or" for token in tokens)
    listed = any(one.low == "one" and two.low == "of" for one, two in pairs)
    binds = parts.polarity in {"must", "only"} or defines or (listed and len(texts) > 1)
    last = max((at for at, token in enumerate(tokens) if token.text in texts), default=len(tokens))
    narrowed = any(token.symbol in {"W", "PERSON", "NAME"} for token in tokens[last + 1 :])  # "... on Sundays"
    if len(args) == 1 and binds and not narrowed and any(token.symbol in {"BE", "DUTY"} for token in tokens):
        return Reading(
            "forbid_arg", (*args, *texts), first=tools, shape="value", frame="composed: the value of an argument"
        )
    return None


def _capitals(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the words of a language of queries that stand in capitals in a sentence which has small letters."""
    small = any(token.text.islower() and token.symbol for token in tokens)
    words = tuple(
        token.text for token in tokens if token.symbol == "W" and token.text.isupper() and len(token.text) > 2
    )
    return words if small else ()


def _listed_numbers(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the numbers of a list that an "or" ends: "15, 30 or 45"."""
    solid = [token for token in tokens if token.symbol]
    numbers = [number for number, token in enumerate(solid) if token.symbol == "NUM" and token.text.isdigit()]
    if len(numbers) < 2 or not any(token.low == "or" for token in solid[numbers[0] : numbers[-1]]):
        return ()
    between = solid[numbers[0] : numbers[-1] + 1]
    return tuple(solid[at].text for at in numbers) if all(one.symbol in {"NUM", "SEP"} for one in between) else ()


def _bare_path(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return a path that stands in the sentence without marks: "starts with /workspace"."""
    for at, token in enumerate(tokens[:-1]):
        glued = at > 0 and tokens[at - 1].end == token.start  # "accept/reject"
        if token.text == "/" and tokens[at + 1].start == token.end and not glued:
            return (f"/{tokens[at + 1].text}",)
    return ()


_ABOUT_FILES: Final = word_set(
    "call calling called directory root workspace project repository working current "
    "file files operations tools tool referring refer arguments reading writing operation calls commands edits editing "
    "parameters reference references them these those operating path paths accessing access passed all any use used not"
)


def read_paths(parts: Parts, _catalogue: Catalogue) -> Reading | None:
    """Return that paths have to be absolute, or relative."""
    tokens = (*parts.main.tokens, *(token for other in parts.of("if", "with") for token in other.tokens))
    sorts = {token.symbol for token in tokens if token.symbol in {"ABSPATH", "RELPATH"}}
    words = {token.low for token in tokens if token.symbol in {"W", "DEED", "LITWORD", "CALL"}}
    if (
        len(parts.of("if", "with")) < len(parts.others)
        or not sorts
        or not words <= _ABOUT_FILES
        or parts.polarity not in {"must", "only", "not"}
    ):
        return None
    first = next(token.symbol for token in tokens if token.symbol in sorts)
    bans = parts.polarity == "not" and len(sorts) == 1
    wrong = first if bans else {"ABSPATH": "RELPATH", "RELPATH": "ABSPATH"}[first]
    tools = tuple(token.text for token in tokens if token.symbol == "TOOL" and not token.described)
    items = ("absolute" if wrong == "ABSPATH" else "relative",)
    return Reading("forbid_arg", items, first=tools, shape="path", frame="composed: paths")


# Arguments that a tool has to be given.


def read_missing(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return arguments without which a tool must not be called: "never call X without a `reason`"."""
    if parts.polarity == "must" and not parts.others:
        return _always_given(parts.main.tokens, catalogue)
    if parts.polarity != "not" or len(parts.others) != 1 or parts.others[0].word not in {"without", "unless"}:
        return None
    given = parts.others[0].tokens
    tools = tools_in([token for token in parts.main.tokens if token.symbol])
    plain = all(token.symbol in {"CODE", "ARGNAME", "SEP", "LITWORD", "EACH", ""} for token in given)
    if not tools or not plain or not arguments_in(given):
        return None
    return Reading("forbid_arg", arguments_in(given), first=tools, shape="given", frame=_WHETHER_GIVEN)


def _always_given(tokens: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    """Arguments that are always given: "always give a chart a `title`"."""
    args = arguments_in(tokens)
    always = any(token.low in {"always", "every", "each"} for token in tokens)
    gives = any(token.low in _GIVING for token in tokens)
    told = any(token.symbol in {"QUOTE", "NUM", "RANGE"} or token.low in {"true", "false"} for token in tokens)
    act = act_of([token for token in tokens if token.low not in _GIVING and token.symbol != "CODE"], catalogue)
    if len(args) != 1 or not always or not gives or told or not act.tools or act.left:
        return None
    return Reading("forbid_arg", args, first=act.tools, shape="given", guess=act.described, frame=_WHETHER_GIVEN)


_GIVING: Final = word_set("give provide include specify fill pass supply")


def read_needed(statement: Sequence[Token]) -> Reading | None:
    """Return arguments that a tool has to be given: "`check_in` is required for search_hotels"."""
    args = arguments_in(statement)
    tools = tuple(dict.fromkeys(token.text for token in statement if token.symbol == "TOOL" and not token.described))
    needs = any(token.symbol == "NEED" or token.low in {"mandatory", "required"} for token in statement)
    allowed = {
        "CODE",
        "ARGNAME",
        "TOOL",
        "SEP",
        "NEED",
        "BE",
        "EACH",
        "DUTY",
        "LITWORD",
        "CALL",
        "CALLN",
        "TOOLWORD",
        "",
    }
    known = all(token.symbol in allowed or token.low == "mandatory" for token in statement)
    if not args or not tools or not needs or not known:
        return None
    return Reading("forbid_arg", args, first=tools, shape="given", frame=_WHETHER_GIVEN)


# Where the value of an argument has to come from: "an id which search_kb returned".

_RETURNING: Final = word_set(
    "returned returns gave gives provided produced listed found showed returning come comes came taken obtained copied"
)
_OF: Final = word_set("by from of")
_NARROWS: Final = word_set("in for on at during with to")
_IDS: Final = word_set("id ids identifier identifiers number numbers code reference key")
_THAT: Final = word_set("that which")


def read_origin(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return that the value of an argument stands in a result of some tools."""
    only = [other for other in parts.others if other.word == "only with"]  # "file a claim only with a number that ..."
    said = [*parts.main.tokens, *(token for other in only for token in other.tokens)]
    tokens = [token for token in said if token.symbol or token.low in _OF | _NARROWS | _THAT]
    sources = _sources(tokens)
    if len(only) < len(parts.others) or not _binds(parts, tokens) or not sources or _goes_on(tokens):
        return None
    loose = bool(only) or parts.polarity == "not"  # the call may be described
    tools = [token.text for token in tokens if token.symbol == "TOOL" and (loose or not token.described)]
    judged = tuple(dict.fromkeys(tool for tool in tools if tool not in sources))
    names = tuple(name for name in arguments_in(tokens) if not catalogue.knows(name)) or _ids(tokens, judged)
    if not judged and catalogue.closed:  # any other tool that is given it
        judged = tuple(name for name in catalogue.names if name not in sources)
    if not names or not judged:
        return None
    return Reading(
        "forbid_arg",
        names,
        first=judged,
        second=sources,
        shape="origin",
        guess=True,
        frame="composed: the origin of an argument",
    )


def _binds(parts: Parts, tokens: Sequence[Token]) -> bool:
    """Whether it says that a value has to be given so: "only what X returned", "never what X has not returned"."""
    negated = any(token.low in {"not", "never"} and token.symbol == "W" for token in tokens)
    return parts.polarity in {"must", "only"} and not negated if parts.polarity != "not" else negated


def _sources(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the tools that are said to give something: "which X or Y returned", "returned by X"."""
    at = next((number for number, token in enumerate(tokens) if _gives(token)), None)
    if at is None:
        return ()
    behind = tokens[at + 1 :]
    if behind and behind[0].low in _OF:
        return _listed(behind[1:])
    before = [token for token in tokens[:at] if token.low != "not"]
    return tuple(reversed(_listed(before[::-1])))


def _gives(token: Token) -> bool:
    return token.low.split()[-1:] != [] and token.low.split()[-1] in _RETURNING


def _goes_on(tokens: Sequence[Token]) -> bool:
    """Whether more stands behind what gives the value, which may narrow it: "in plan mode"."""
    at = next((number for number, token in enumerate(tokens) if _gives(token)), 0)
    return any(
        token.symbol not in {"TOOL", "SEP", "YOU", "PERSON"} and token.low not in _OF for token in tokens[at + 1 :]
    )


def _listed(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the tools that stand together at the beginning."""
    found: list[str] = []
    for token in tokens:
        if token.symbol == "TOOL" and not token.described:
            found.append(token.text)
        elif token.symbol != "SEP":
            break
    return tuple(found)


def _ids(tokens: Sequence[Token], tools: Sequence[str]) -> tuple[str, ...]:
    """Return the names that an argument may have, where only "an id" or "a parcel number" is said."""
    at = next((number for number, token in enumerate(tokens) if token.low in _IDS), None)
    if at is None:  # "a symbol which X returned"
        that = next((number for number, token in enumerate(tokens) if token.low in _THAT), 0)
        at = that - 1 if that and tokens[that - 1].symbol == "W" and tokens[that - 1].low.isalpha() else None
    if at is None or len(tools) != 1:
        return ()
    word = tokens[at].low.removesuffix("s") if tokens[at].low != "ids" else "id"
    word = "id" if word == "identifier" else word
    before = tokens[at - 1].low if at and tokens[at - 1].symbol == "W" and tokens[at - 1].low.isalpha() else ""
    things = dict.fromkeys(thing for thing in (before, words_of(tools[0])[-1]) if thing)
    named = [name for thing in things for name in (f"{thing}_{word}", f"{thing}{word.title()}", f"{thing}_{word}s")]
    return (word, f"{word}s", *named)
