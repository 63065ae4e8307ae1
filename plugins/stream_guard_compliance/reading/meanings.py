"""What productions say: a statement that one fits becomes a reading about calls, texts or arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from stream_guard_compliance.reading.symbols import COMMAND_NAMES, COUNTED, FORM_NAMES, SAYS_CODE, is_command
from stream_guard_compliance.reading.values import PER_AGENT, Reading, Token, word_set

# A statement that a production fits, and what a production is.


@dataclass(frozen=True, slots=True)
class Fit:
    """A statement that a production fits: the tokens of each of its marked parts."""

    tokens: Sequence[Token]
    parts: dict[str, tuple[int, int]]

    def of(self, part: str) -> Sequence[Token]:
        """Return the tokens of a part, none where the statement does not have it."""
        start, end = self.parts.get(part, (0, 0))
        return self.tokens[start:end] if start >= 0 else ()

    def tools(self, part: str = "tools") -> tuple[str, ...]:
        """Return the tools that a part names."""
        return tuple(dict.fromkeys(token.text for token in self.of(part) if token.symbol == "TOOL"))

    def words(self, part: str) -> str:
        """Return the words of a part, small."""
        return " ".join(token.low for token in self.of(part))

    def amount(self) -> float:
        """Return the number of the part ``n``, with its cents."""
        low = next((token.low for token in self.of("n") if token.symbol == "NUM"), "0")
        return float(COUNTED[low]) if low in COUNTED else float(low.lstrip("$\u20ac\u00a3 ").replace(",", ""))

    def number(self) -> int:
        """Return the number of the part ``n`` as a count; -1 where it is none."""
        for token in self.of("n"):
            if token.symbol == "RANGE":
                return int(re.split(r"\D+", token.text)[-1])
            if token.symbol == "NUM":
                return int(self.amount())
            if token.symbol in {"TIMES", "ONCE"}:
                return {"once": 1, "twice": 2, "thrice": 3}.get(token.low, -1)  # "times" alone is no number
        return 0


Builder: TypeAlias = Callable[[Fit], "Reading | None"]
Production: TypeAlias = tuple[Builder, tuple[str, ...]]
"""What statements say, and the patterns that fit them."""


# What productions about calls say: a statement that one fits becomes a reading.


def forbid(fit: Fit) -> Reading | None:
    """These tools must not be called, or those that do to anything what must be done to nothing."""
    return Reading("forbid_tool", fit.tools(), described=tuple(token.low for token in fit.of("deed")))


def forbid_edits(fit: Fit) -> Reading | None:
    """Files must not be changed, or not be deleted: by tools that are called like it, or by commands."""
    deeds = [token for token in fit.of("deeds") if token.symbol in {"EDITS", "DELETES"}]
    edits = any(token.symbol == "EDITS" for token in deeds)
    code = all("code" in token.low for token in deeds)  # then a plan or a note may be written
    described = ("code",) if code else ()
    return Reading("forbid_tool", (), shape="edits" if edits else "deletes", guess=True, described=described)


def forbid_all(fit: Fit) -> Reading | None:
    """No tool may be called. "Do not use the tool" is about one, and "do not take any action" about more than tools."""
    named = fit.words("called") or "tool calls"
    every = bool(fit.of("each")) or "call" in named
    return Reading("forbid_tool", ("*",)) if every and named.startswith(("tool", "function call")) else None


def allow_only(fit: Fit) -> Reading | None:
    """No tools but these may be called."""
    if any(token.inherited for token in fit.of("tools")):
        return None  # "Only use it": when, not which
    return Reading("allow_only", fit.tools())


def allow_agent(fit: Fit) -> Reading | None:
    """Only one agent may call these tools."""
    return Reading("allow_only", fit.tools(), by=f"{PER_AGENT}:{fit.words('who')}")


def require(fit: Fit) -> Reading | None:
    """These tools must be called. "Use" says with what and not that: "Always use X" holds where there is work for X."""
    uses = any(
        token.symbol == "CALL" and not token.low.startswith(("call", "invok", "trigger")) for token in fit.tokens
    )
    always = any(token.symbol in {"END", "SESSION", "ATLEAST", "SKIP"} for token in fit.tokens)
    either = any(token.low == "or" for token in fit.of("tools"))
    return Reading("require_tool", fit.tools(), either=either) if always or not uses else None


def in_order(fit: Fit) -> Reading | None:
    """Of two calls, one has to come first."""
    if _goes_on_until(fit):
        return None
    first, second = fit.tools("first"), fit.tools("second")
    if not first or not second or set(first) & set(second):
        return None
    either = any(token.low == "or" for token in fit.of("first"))
    each_time = bool(fit.of("each"))
    return Reading("order", (*first, *second), first=first, second=second, each_time=each_time, either=either)


def _goes_on_until(fit: Fit) -> bool:
    """Whether something is done until something else: "use X until Y" makes X wait for nothing."""
    held = {token.symbol for token in fit.tokens}
    until = any(token.symbol == "UNLESS" and token.low in {"until", "till", "unless"} for token in fit.tokens)
    return until and not held & {"BAN", "ONLY", "NEED", "FORBIDDEN"}


def in_order_described(fit: Fit) -> Reading | None:
    """What has to wait is an action in words: which tools it means, compiling decides."""
    first = fit.tools("first")
    return Reading("order", first, first=first, described=tuple(token.low for token in fit.of("deed")))


def confirm(fit: Fit) -> Reading | None:
    """A yes has to come before these tools are called."""
    if _goes_on_until(fit):
        return None
    superiors = [token.low.removesuffix("'s") for token in fit.tokens if token.symbol == "SUPERIOR"]
    return Reading("confirm_before", fit.tools(), by=superiors[0] if superiors else "")


def confirm_described(fit: Fit) -> Reading | None:
    """An action in words: which tools it means, compiling decides."""
    superiors = [token.low.removesuffix("'s") for token in fit.tokens if token.symbol == "SUPERIOR"]
    words = tuple(word for token in fit.of("deed") for word in token.low.split())
    over = fit.amount() if fit.of("n") else None
    return Reading("confirm_before", (), described=words, over=over, by=superiors[0] if superiors else "")


def confirm_destructive(fit: Fit) -> Reading | None:
    """A yes has to come before whatever destroys something."""
    return Reading("confirm_before", (), destructive=True, described=tuple(token.low for token in fit.of("deed")))


_FEW: Final = 3
_UNITS: Final = {"w": "words", "c": "chars", "s": "sentences", "p": "paragraphs", "t": "tokens", "l": "lines"}


def length(fit: Fit) -> Reading | None:
    """A response must not be longer."""
    if _most(fit) < 0:
        return None
    unit = _UNITS[fit.words("unit")[0]]
    return Reading("limit", (f"{unit}<={_most(fit)}",), strict=_is_strict(fit))


def _is_strict(fit: Fit) -> bool:
    return any(token.symbol == "ATMOST" and token.low in {"under", "below"} for token in fit.tokens)


def _most(fit: Fit) -> int:
    """Return the largest number that is still fine: "fewer than 4" is 3."""
    return fit.number() - 1 if any(token.symbol == "FEWER" for token in fit.tokens) else fit.number()


def calls(fit: Fit) -> Reading | None:
    """No more calls than this."""
    if _most(fit) < 0:
        return None
    makes = any(token.symbol == "KEEP" and token.low in {"make", "take"} for token in fit.tokens)
    bound = any(token.symbol in {"ATMOST", "ONLY", "FEWER", "MORETHAN"} for token in fit.tokens)
    spans = any(token.symbol in {"SESSION", "WINDOW"} for token in fit.tokens)
    if not spans and fit.number() < _FEW:
        return None  # so few may be meant for a turn
    if (makes and not bound) or not fit.words("called").startswith(("tool", "function call")):
        return None  # "make 3 tool calls" is no upper bound, "limit yourself to 3" is one
    return Reading("limit", (f"calls<={_most(fit) - _is_strict(fit)}",), window=_windowed(fit))


def _windowed(fit: Fit) -> bool:
    return any(token.symbol == "WINDOW" for token in fit.tokens)


def per_turn(fit: Fit) -> Reading | None:
    """No more calls of these tools, all together, in one response."""
    n = fit.number() if fit.of("n") else 1
    if n < 1 or any(token.inherited for token in fit.of("tools")):
        return None
    same = fit.words("same")
    if same and same not in {"file", "path"}:
        return None
    items = tuple(f"{tool}<={n}" for tool in fit.tools())
    return Reading("limit", items, shape="per_turn", described=(same,) if same else ())


def alone(fit: Fit) -> Reading | None:
    """A call of these tools is the only one of its response."""
    return Reading("limit", fit.tools(), shape="alone")


_CALL_WORDS: Final = word_set(
    "command commands query queries request requests action actions call calls search searches"
)
_CALL_VERBS: Final = word_set(
    "call use invoke run execute repeat redo re-do retry attempt submit issue send make query perform re-run rerun try"
)
_FAILED: Final = word_set("failed failing rejected denied blocked refused declined")


def repeat(fit: Fit) -> Reading | None:
    """Not the same call again; what is about failed or rejected calls alone asks for less than that."""
    words = {word for token in fit.tokens for word in token.low.split()}
    about = fit.of("object")
    calls = any(
        token.symbol in {"CALLED", "TOOL", "TOOLCALL", "TOOLWORD"} or token.low in _CALL_WORDS for token in about
    )
    again = any(token.symbol in {"AGAIN", "TIMES", "MULTIPLE", "MORETHAN"} for token in fit.tokens)
    verb = fit.words("verb")
    repeats = again or verb.startswith(("re", "try"))
    if not calls or not repeats or verb not in _CALL_VERBS or words & _FAILED or fit.of("n"):
        return None
    return Reading("limit", fit.tools("object"), shape="repeat")


def first_action(fit: Fit) -> Reading | None:
    """The first call of a session is one of these."""
    first = fit.tools("first")
    return Reading("order", first, first=first, either=True, shape="first_action") if first else None


def confirm_acts(fit: Fit) -> Reading | None:
    """A yes has to come before whatever changes something."""
    superior = any(token.symbol == "SUPERIOR" for token in fit.tokens)
    known = {
        "them",
        "it",
        "update",
        "updates",
        "updating",
        "modify",
        "modifies",
        "change",
        "changes",
        "database",
        "system",
    }
    if superior or not {token.low for token in fit.of("object")} <= known:
        return None
    return Reading("confirm_before", (), shape="acts", guess=True)


def retries(fit: Fit) -> Reading | None:
    """No more retries than this."""
    if _most(fit) < 0:
        return None
    return Reading("limit", (f"retries<={_most(fit)}",))


def failures(fit: Fit) -> Reading | None:
    """No more failures than this."""
    return Reading("limit", (f"failures<={fit.number()}",), described=tuple(token.low for token in fit.of("deed")))


def over_amount(fit: Fit) -> Reading | None:
    """These tools must not be called over an amount."""
    unit = fit.words("unit")
    if unit and unit not in {"percent", "dollars", "euros", "usd", "eur", "pounds"}:
        return None
    details, described = (fit.words("amount"),), (unit,) if unit else ()
    return Reading("conditional", fit.tools(), over=fit.amount(), details=details, described=described)


# What productions about texts and arguments say: a statement that one fits becomes a reading.

_WRITES: Final = word_set(
    "include including includes add adding write writing provide show showing state output print display"
)
_PII: Final = {
    "email": ("email", "e-mail"),
    "phone": ("phone", "telephone", "mobile"),
    "card": ("credit", "card"),
    "ssn": ("ssn", "social"),
    "ip": ("ip ",),
    "iban": ("iban", "bank"),
}


def forbid_output(fit: Fit) -> Reading | None:
    """A response must not have these texts, data or secrets."""
    items: list[str] = []
    left = []
    quotes = any(token.symbol in {"QUOTE", "TOOL"} for token in fit.of("objects"))
    if fit.of("omit") and any(
        token.text.replace(" ", "").isalnum() for token in fit.of("objects") if token.symbol != "SEP"
    ):
        return None  # what is left out may be a word of something else than an answer
    if quotes and not fit.of("open") and any(token.symbol == "SAY" and token.low in _WRITES for token in fit.tokens):
        return None  # what is written or added may be a file
    for token in fit.of("objects"):
        if token.symbol == "PROMPT":
            items.append("system_prompt")
        elif token.symbol == "SECRET":
            items.append("secrets")
        elif token.symbol == "PII":
            sort = next((name for name, starts in _PII.items() if token.low.startswith(starts)), "")
            items.append(f"pii:{sort}" if sort else "pii")
        elif token.symbol in {"QUOTE", "TOOL", "CODE"}:
            items.append(token.text.strip(" .\u2026") or token.text)
        elif token.symbol not in {"SEP", "PERSON", "SUPERIOR", "EXPLICIT", "EACH", "PHRASE"}:
            left.append(token.low)
    place: Any = "end" if fit.of("close") else "start" if fit.of("open") else ""
    return Reading("forbid_output", tuple(dict.fromkeys(items)), left=tuple(left), place=place) if items else None


def forbid_form(fit: Fit) -> Reading | None:
    """A response must not have text of this form. What is written may be a file, so code has to be said."""
    if fit.of("plain"):
        return Reading("forbid_output", ("markdown", "tables"), shape="form")
    if fit.of("numbers"):
        spelt = fit.words("numbers") in {"numbers", "digits", "numerals"}
        return Reading("require_output", ("digits",), shape="form") if spelt else None
    named = [FORM_NAMES.get(token.low, "json") for token in fit.of("forms") if token.symbol in {"FORM", "JSON"}]
    forms = tuple(dict.fromkeys(named))
    verbs = {token.low for token in fit.tokens if token.symbol in {"SAY", "CALL", "KEEP", "REPLY", "DISCLOSE"}}
    fences = any("fence" in token.low for token in fit.of("forms"))
    if forms == ("code",) and not verbs & SAYS_CODE and not fences:
        return None
    return Reading("forbid_output", forms, shape="form")


def question_end(fit: Fit) -> Reading | None:
    """A response, or what a tool says to the user, must not end with a question."""
    left = tuple(token.low for token in fit.of("rest") if token.symbol == "W")
    return Reading("forbid_output", ("question_end",), shape="form", first=fit.tools(), left=left)


def each_response(fit: Fit) -> Reading | None:
    """Every response has to have something: words beside its calls, a call, or anything at all."""
    words = {word for token in fit.tokens for word in token.low.split()}
    if fit.words("verb") not in {"", "act"}:
        return None  # "do not merge without a comment" is about a deed
    if fit.of("called") and words & _MAKES:
        return Reading("require_tool", ("*",), shape="each_turn")
    if fit.of("empty"):
        return Reading("require_output", ("text",), shape="not_empty")
    silent = fit.words("silent") in {"silence", "silently"} or bool(set(fit.words("words").split()) & _EXPLAINS)
    return Reading("require_output", ("text",), shape="say_before") if silent and not fit.of("called") else None


_MAKES: Final = word_set("provide make include issue output emit use contain have")
_EXPLAINS: Final = word_set(
    "explain explanation tell state describe announce inform say saying summary statement sentence text comment"
)


def forbid_command(fit: Fit) -> Reading | None:
    """No call may run these commands, or have these flags."""
    named = tuple(COMMAND_NAMES[token.low] for token in fit.of("commands") if token.symbol == "COMMAND")
    literals = _literals(fit.of("literals"))
    if not all(is_command(text) for text in literals):
        return None
    files = tuple(token.text for token in fit.of("files") if token.symbol == "FILE")
    left = tuple(token.low for token in fit.tokens if token.symbol == "SECRET") if files else ()
    return Reading("forbid_arg", (*named, *literals), described=files, shape="command", left=left)


def _literals(tokens: Sequence[Token]) -> tuple[str, ...]:
    groups: list[list[str]] = [[]]
    for token in tokens:
        if token.symbol in {"SEP", "LITWORD"}:
            groups.append([])
        elif token.symbol == "CODE":
            groups += [[token.text], []]
        else:
            groups[-1].append(token.text)
    return tuple(" ".join(group) for group in groups if group)


def require_quote(fit: Fit) -> Reading | None:
    """A response must have this text."""
    quotes = tuple(token.text for token in fit.tokens if token.symbol == "QUOTE")
    if not any(token.symbol in {"ANSWER", "PHRASE"} or token.low.startswith("say") for token in fit.tokens):
        return None  # what must be included may belong into a file
    place: Any = "end" if fit.of("close") else "start" if fit.of("open") else ""
    return Reading("require_output", quotes, place=place)


def citation(_fit: Fit) -> Reading | None:
    """A source must be given."""
    return Reading("require_output", ("citation",), each=False)


def forbid_arg(fit: Fit) -> Reading | None:
    """No call may have these texts in its arguments."""
    return Reading("forbid_arg", _literals(fit.of("literals")))
