"""The grammar of concrete rules: productions over symbols, and what each one says.

A production fits a statement only as a whole. Words that no symbol stands for are content (``W``), so a statement
with a word more than its production has a place for is not concrete: every content word is accounted for, or the
statement is left to judgement. Productions are regular, and RE2 matches them in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import re2

from stream_guard_compliance.reading.symbols import (
    COMMAND_NAMES,
    COUNTED,
    FORM_NAMES,
    LETTER,
    SAYS_CODE,
    SYMBOLS,
    is_command,
)
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
    window = any(token.symbol == "WINDOW" for token in fit.tokens)
    return Reading("limit", (f"calls<={_most(fit) - _is_strict(fit)}",), window=window)


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


# Productions about calls: tools that are forbidden, alone allowed or asked for, in an order, after a yes.

_ABOUT_CALLS: Final[tuple[Production, ...]] = (
    # tools that are forbidden
    (
        forbid,
        (
            "NOT ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> (?:DUTY|MAY)? BAN BE? ACT TAIL",
            "(?:CALL|RUN|CALLN)? <tools:TOOLS>> BE (?:EXPLICIT|DUTY)? FORBIDDEN TAIL",
            "NOTHING (?:MAY|DUTY) BE <deed:W>> TAIL",
        ),
    ),
    (
        forbid_edits,
        (
            "NOT <deeds:(?:EDITS|DELETES)(?: SEP+ (?:EDITS|DELETES|RUN DANGEROUS DEED|PROCEED|FORM|W W?))*>> TAIL",
            "NOT (?:PROCEED|RUN DANGEROUS DEED) SEP+ <deeds:(?:EDITS|DELETES)>> TAIL",
        ),
    ),
    (
        forbid_all,
        (
            "NOT (?:ACT|KEEP) <each:EACH?>> <called:CALLED>> TAIL",
            "(?:DOES KEEP)? NO TOOLCALL TAIL",
        ),
    ),
    # tools that alone are allowed
    (
        allow_only,
        (
            "NOT ACT EACH? CALLED (?:OTHERTHAN|IF) <tools:TOOLS>> TAIL",
            "YOU? BE? (?:MAY|DUTY)? ONLY BE? MAY? ACT <tools:TOOLS>> TAIL",
            "YOU? (?:MAY|DUTY)? ACT ONLY <tools:TOOLS>> TAIL",
        ),
    ),
    (
        allow_agent,
        (
            "ONLY <who:W W? W?>> AGENTWORD (?:MAY|DUTY) ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> (?:DUTY|MAY) ONLY BE ACT <who:W W? W?>> AGENTWORD TAIL",
        ),
    ),
    # tools that must be called
    (
        require,
        (
            "<must:MUST>> <tools:(?:CALL|RUN) TOOLS>> (?:END|SESSION|ATLEAST ONCE|TAIL)*",
            "DOES ACT <tools:TOOLS>> (?:END|EACH? SESSION|ATLEAST ONCE)+ TAIL",
            "(?:END|SESSION) SEP? DOES ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> DUTY BE ACT (?:END|SESSION|ATLEAST ONCE)? TAIL",
            "NOT SKIP ACT? <tools:TOOLS>> TAIL",
        ),
    ),
    # order
    (
        in_order,
        (
            "DOES FIRST? ACT <first:TOOLS>> FIRST? BEFORE YOU? ACT? <second:TOOLS>> TAIL",
            "BEFORE <each:EACH?>> YOU? (?:ACT|CALLN)? <second:TOOLS>> SEP? DOES FIRST? ACT? <first:TOOLS>> FIRST? TAIL",
            "NOT ACT <second:TOOLS>> LATER YOU? FIRST? ACT? <first:TOOLS>> (?:SUCCEEDED|FIRST)? TAIL",
            "<first:TOOLS>> DUTY BE? ACT? BEFORE ACT? <second:TOOLS>> TAIL",
            "<second:TOOLS>> DUTY? BE? PRECEDED CALLN? <first:TOOLS>> TAIL",
            (
                "<each:EACH?>> (?:ACT|CALLN)? <second:TOOLS>> NEED PRECEDED? (?:ACT|CALLN)? <first:TOOLS>> "
                "(?:FIRST|SUCCEEDED)? TAIL"
            ),
            "ONLY ACT <second:TOOLS>> (?:AFTER|UNLESS|ONCE) YOU? ACT? <first:TOOLS>> SUCCEEDED? TAIL",
            "YOU? MAY? ACT <second:TOOLS>> (?:UNLESS|ONLY AFTER) YOU? ACT? <first:TOOLS>> SUCCEEDED? TAIL",
            "<second:TOOLS>> (?:MAY|DUTY) ONLY BE ACT (?:AFTER|ONCE) ACT? <first:TOOLS>> SUCCEEDED? TAIL",
            "DOES FIRST SEP? ACT <first:TOOLS>> (?:SEP|THEN)+ ACT? <second:TOOLS>> TAIL",
            "<first:TOOLS>> FIRST (?:SEP|THEN)+ <second:TOOLS>> TAIL",
            "DOES ACT <first:TOOLS>> (?:FIRST (?:SEP|THEN)+|SEP? THEN SEP?) ACT? <second:TOOLS>> TAIL",
        ),
    ),
    (
        first_action,
        (
            "YOU? FIRSTACT DUTY BE ACT? <first:TOOLS>> TAIL",
            "MUST OPEN (?:EACH|SESSION|ANSWER|W)* ACT <first:TOOLS>> TAIL",
            "DOES OPEN EACH (?:SESSION|ANSWER|W) ACT <first:TOOLS>> TAIL",
            "MUST ACT <first:TOOLS>> FIRST TAIL",
        ),
    ),
    (
        in_order_described,
        ("BEFORE YOU? <deed:W EACH? W?>> SEP? DOES FIRST? ACT? <first:TOOLS>> TAIL",),
    ),
    # a yes that must come first
    (
        confirm,
        (
            "NOT ACT <tools:TOOLS>> LATER ASK* YES TAIL",
            "NOT ACT <tools:TOOLS>> (?:UNLESS|BEFORE) AGREES TAIL",
            "NOT ACT <tools:TOOLS>> (?:WITHOUT|BEFORE) ASK+ (?:GROUP+ FIRST?|FIRST) TAIL",
            "DOES ASKS BEFORE YOU? (?:ACT|CALLN)? <tools:TOOLS>> TAIL",
            "BEFORE YOU? (?:ACT|CALLN)? <tools:TOOLS>> SEP? DOES ASKS TAIL",
            "EACH? (?:ACT|CALLN)? <tools:TOOLS>> (?:DUTY|BE)? NEED YES TAIL",
            "(?:DOES|YOU? MAY) (?:ONLY ACT <tools:TOOLS>> (?:AFTER|ONCE|UNLESS|IF))(?: AGREES| YOU? ASK* YES) TAIL",
            "(?:DOES|YOU? MAY) ACT <tools:TOOLS>> UNLESS (?:AGREES|YES) TAIL",
        ),
    ),
    (
        confirm_destructive,
        (
            "DOES ASKS BEFORE (?:ACT|W)? <deed:DANGEROUS (?:DEED|TOOLWORD)>> TAIL",
            "NOT (?:ACT|W) EACH? <deed:DANGEROUS (?:DEED|TOOLWORD)>> LATER (?:ASK* YES|AGREES) TAIL",
            "EACH? <deed:DANGEROUS (?:DEED|TOOLWORD)>> NEED YES TAIL",
        ),
    ),
    (
        confirm_acts,
        (
            "DOES ASKS EACH? DEED GROUP* BEFORE (?:RUN|KEEP|CALL|W) <object:W?>> TAIL",
            "DOES ASKS BEFORE YOU? PROCEED <object:(?:W W?)?>> TAIL",
            "NOT PROCEED LATER ASK* YES W? TAIL",
            "NOT PROCEED (?:UNLESS|BEFORE) AGREES TAIL",
        ),
    ),
    (
        confirm_described,
        (
            "EACH? <deed:W W?>> (?:AMOUNT|MORETHAN) <n:NUM>> NEED YES TAIL",
            "EACH? <deed:W W?>> NEED YES TAIL",
            "DOES ASKS BEFORE YOU? <deed:(?:W|SKIP) EACH? W?>> TAIL",
            "ONLY <deed:W W?|DELETES|EDITS>> (?:AFTER|ONCE|UNLESS|IF) (?:AGREES|YES) TAIL",
            "NOT <deed:DELETES|EDITS>> LATER (?:ASK* YES|ASK+ GROUP+ FIRST?|AGREES) TAIL",
            "NOT <deed:W EACH? W?>> LATER (?:ASK* YES|ASK+ GROUP+ FIRST?) TAIL",
        ),
    ),
)


# Productions about limits: of calls, at once, in a turn or a session, and of the length of an answer.

_ABOUT_LIMITS: Final[tuple[Production, ...]] = (
    # limits
    (
        length,
        (
            "DOES (?:(?:KEEP|SAY|CALL) EACH? ANSWER|REPLY) (?:ATMOST|FEWER) <n:NUM>> <unit:UNIT>> TAIL",
            "DOES KEEP EACH? ANSWER <n:NUM>> <unit:UNIT>> ORFEWER? TAIL",
            "DOES REPLY <n:NUM>> <unit:UNIT>> ORFEWER TAIL",
            "(?:ANSWER|SAY|REPLY) DUTY BE? (?:KEEP|BE)? (?:ATMOST|FEWER) <n:NUM>> <unit:UNIT>> TAIL",
            "(?:ANSWER|SAY|REPLY)? YOU? BAN (?:EXCEED|BE MORETHAN) <n:NUM>> <unit:UNIT>> TAIL",
            "NOT (?:SAY ANSWER|REPLY) MORETHAN <n:NUM>> <unit:UNIT>> TAIL",
            "ATMOST <n:NUM>> <unit:UNIT>> (?:EACH? ANSWER|EACH REPLY)",
            "DOES (?:(?:KEEP|SAY|CALL) EACH? ANSWER|REPLY) W? (?:ATMOST|SEP)? <n:RANGE>> <unit:UNIT>> TAIL",
        ),
    ),
    (
        calls,
        (
            "(?:DOES|YOU MAY) (?:ACT|KEEP) (?:ATMOST|ONLY|FEWER) <n:NUM>> W? <called:CALLED>> (?:SESSION|WINDOW)? TAIL",
            "NOT (?:CALL|KEEP|RUN) MORETHAN <n:NUM>> <called:CALLED>> (?:SESSION|WINDOW)? TAIL",
            "DOES KEEP YOU? <n:NUM>> <called:CALLED>> (?:SESSION|WINDOW) TAIL",
        ),
    ),
    (
        per_turn,
        (
            "(?:DOES|YOU? MAY) ONLY? (?:ACT|KEEP|SAY|W)? (?:ATMOST|ONLY|EXACTLY)? <n:NUM>> <tools:TOOLS>> SPAN TAIL",
            "NOT (?:ACT|KEEP|SAY|W) (?:MORETHAN <n:NUM>>|MULTIPLE) <tools:TOOLS>> SPAN TAIL",
            "NOT ACT <tools:TOOLS>> MORETHAN <n:COUNT>> SPAN TAIL",
            "(?:DOES|YOU? MAY) ONLY? ACT <tools:TOOLS>> (?:ATMOST|ONLY)? <n:COUNT>> SPAN TAIL",
            "<tools:TOOLS>> (?:MAY|DUTY) ONLY? BE ACT (?:ATMOST|ONLY)? <n:COUNT>> SPAN TAIL",
            "<tools:TOOLS>> (?:BAN|MAY BAN) BE ACT MORETHAN <n:COUNT>> SPAN TAIL",
            "NOT KEEP (?:MULTIPLE|MORETHAN <n:NUM>>) CALLN <tools:TOOLS>> SAME <same:W>> SPAN TAIL",
            "NOT KEEP (?:MULTIPLE|MORETHAN <n:NUM>>) CALLN <tools:TOOLS>> SPAN TAIL",
        ),
    ),
    (
        alone,
        (
            "YOU? BE? (?:DUTY|MAY)? ONLY (?:DUTY|MAY)? BE? ACT <tools:TOOLS>> ALONE TAIL",
            "DOES ACT <tools:TOOLS>> ALONE TAIL",
            "<tools:TOOLS>> DUTY ONLY? BE? ACT? ALONE TAIL",
            "NOT ACT <tools:TOOLS>> TOGETHER (?:EACH|W)* (?:CALLED|DEED) TAIL",
        ),
    ),
    (
        repeat,
        (
            "NOT <verb:ACT|RETRY|KEEP|SAY|W>> EACH? SAME <object:(?:CALLED|DEED|W|TOOLS)+ AGAINST*>> AFRESH? TAIL",
            "NOT <verb:ACT|RETRY|KEEP|SAY|W>> EACH? <object:CALLED|TOOLS>> (?:YOU|W)* AGAINST+ AFRESH? TAIL",
        ),
    ),
    (
        retries,
        (
            "DOES RETRY EACH? FAILED? (?:CALLED|W)? (?:ATMOST|ONLY|FEWER) <n:COUNT>> TAIL",
            "NOT RETRY EACH? FAILED? (?:CALLED|W)? MORETHAN <n:COUNT>> TAIL",
        ),
    ),
    (
        failures,
        ("STOP AFTER <n:NUM>> FAILED <deed:W? W?>> ATTEMPT TAIL",),
    ),
)


# Productions about texts: what answers must not have, what they must have, and what arguments must not have.

_ABOUT_TEXTS: Final[tuple[Production, ...]] = (
    # what answers must not have
    (
        forbid_output,
        (
            (
                "NOT (?:DISCLOSE|SAY)(?: SEP+ (?:DISCLOSE|SAY))* EACH? <objects:OBJECT(?: SEP+ "
                "(?:OBJECT|THINGS))*>> (?:PERSON|EACH|ANSWER|REPLY)* TAIL"
            ),
            "NOT DISCLOSE <objects:(?:THINGS SEP+)+ OBJECT(?: SEP+ (?:OBJECT|THINGS))*>> (?:PERSON|EACH)* TAIL",
            "NOT <open:OPEN>> (?:EACH|ANSWER|REPLY|PERSON)* PHRASE? SUCHAS? <objects:QUOTES>> REST TAIL",
            "NOT <close:CLOSE>> (?:EACH|ANSWER|REPLY)* PHRASE? SUCHAS? <objects:QUOTES>> REST TAIL",
            "NOT (?:SAY|CALL|DISCLOSE|KEEP|ANSWER|EACH)* W? <open:PREAMBLE>> SUCHAS? <objects:QUOTES>> TAIL",
            "NO W? <open:PREAMBLE>> SUCHAS? <objects:QUOTES>> TAIL",
            "DOES <omit:SKIP>> <objects:(?:CODE|QUOTE)(?: SEP+ (?:CODE|QUOTE))*>> REST (?:IF W W? W?)? TAIL",
        ),
    ),
    (
        forbid_form,
        (
            "NOT (?:SAY|CALL|DISCLOSE|KEEP|REPLY)(?: SEP+ (?:SAY|CALL|DISCLOSE))* EACH? <forms:FORMS>> REST HERE TAIL",
            "NO <forms:FORMS>> HERE TAIL",
            "DOES ONLY? (?:REPLY|SAY|CALL|KEEP) (?:EACH|ANSWER)* ONLY? <plain:PLAIN>> ONLY? (?:EACH|ANSWER)* TAIL",
            "DOES SPELL EACH? <numbers:W>> REST TAIL",
            "DOES (?:REPLY|SAY|KEEP) (?:EACH|ANSWER)* W? W? (?:WITHOUT|SEP NO) EACH? <forms:FORMS>> HERE TAIL",
            "<forms:FORMS>> BE (?:EXPLICIT|DUTY)? FORBIDDEN HERE TAIL",
            "<forms:FORMS>> (?:DUTY|MAY)? BAN BE (?:CALL|SAY) HERE TAIL",
        ),
    ),
    (
        question_end,
        (
            "NOT CLOSE (?:EACH|ANSWER|REPLY|YOU)* QUESTION <rest:REST>> TAIL",
            "NOT CLOSE <tools:TOOLS>> W? QUESTION <rest:REST>> TAIL",
            "NOT ASK EACH? QUESTION <end:END>> (?:EACH|ANSWER|REPLY)* TAIL",
        ),
    ),
    # what answers must have
    (
        require_quote,
        (
            "DOES <close:CLOSE>> (?:EACH|ANSWER)+ PHRASE? QUOTE TAIL",
            "DOES <open:OPEN>> (?:EACH|ANSWER)+ PHRASE? QUOTE TAIL",
            "MUST (?:SAY|<close:CLOSE>>|<open:OPEN>>) (?:EACH|ANSWER)* PHRASE? QUOTE (?:EACH|ANSWER)* TAIL",
            "DOES SAY PHRASE? QUOTE EACH? ANSWER TAIL",
            "EACH? ANSWER DUTY (?:SAY|KEEP|W|<close:CLOSE>>|<open:OPEN>>) (?:PHRASE|UNIT)? QUOTE TAIL",
        ),
    ),
    (
        citation,
        (
            "DOES CITE (?:ATLEAST|EACH)? NUM? SOURCE (?:EACH|ANSWER)* TAIL",
            "MUST SAY (?:ATLEAST|EACH)? NUM? SOURCE (?:EACH|ANSWER)* TAIL",
        ),
    ),
    # what every response has
    (
        each_response,
        (
            "NOT ACT CALLED <silent:W>> TAIL",
            "NOT (?:ACT|<verb:W>>) CALLED? WITHOUT <words:(?:SAY|PHRASE|W)>> (?:PHRASE|W|PERSON)? TAIL",
            "MUST (?:SAY|KEEP|CALL|W) (?:ATLEAST NUM)? <called:TOOLCALL>> (?:EACH|TURN|ANSWER)* TAIL",
            "EACH? W? ANSWER DUTY (?:SAY|KEEP|CALL|W) (?:ATLEAST|EACH|NUM)* <called:TOOLCALL>> TAIL",
            "NOT (?:W|SAY|KEEP|REPLY) <empty:EMPTY>> ANSWER (?:NO|PHRASE|SEP|TOOLCALL|W)* TAIL",
            "EACH? ANSWER DUTY? BAN BE <empty:EMPTY>> TAIL",
        ),
    ),
    # what arguments must not have
    (
        forbid_command,
        (
            "NOT <commands:COMMAND(?: SEP+ COMMAND)*>> TAIL",
            "NOT <commands:COMMAND>> (?:SECRET|W)*(?: SEP+ (?:SECRET|W))* SUCHAS? <files:FILE(?: SEP+ FILE)*>> TAIL",
            (
                "NOT (?:RUN|CALL|SKIP|<commands:COMMAND>>) (?:DANGEROUS|W)? (?:DEED|TOOLWORD)? "
                "SUCHAS <literals:LITERALS>> TAIL"
            ),
            "NOT (?:RUN|CALL) LITWORD? <literals:LITERALS>> LITWORD? TAIL",
            "NOT <literals:CODE>> W? W? TAIL",
        ),
    ),
    (
        forbid_arg,
        (
            "NOT RUN <literals:LITERAL+ (?:SEP+ LITERAL+)*>> TAIL",
            "NOT (?:RUN|CALL TOOLWORD|RUN TOOLWORD) <literals:CODE (?:SEP+ CODE)*>> TAIL",
        ),
    ),
    # an amount that a call must not pass
    (
        over_amount,
        ("NOT ACT <tools:TOOLS>> <amount:W? (?:AMOUNT|MORETHAN) <n:NUM>>>> <unit:W?>> TAIL",),
    ),
)


# The productions together, as patterns over the symbols of a statement.

_WORD: Final = re.compile(r"[A-Z]{2,}|\bW\b")
_MACROS: Final = {
    "TOOLS": "(?:TOOLWORD? TOOL (?:SEP+ TOOL)* TOOLWORD?)",
    "MUST": "(?:YOU? BE? DUTY YOU?)",
    "DOES": "(?:YOU? BE? DUTY? YOU?)",  # a duty, said or in the imperative
    "NOT": "(?:YOU? BE? DUTY? BAN (?:SEP|ANYWAY)* DUTY? YOU?)",
    "ACT": "(?:CALL|RUN)",
    "GROUP": "(?:PERSON|SUPERIOR|EXPLICIT|EACH)",
    "YES": "(?:GROUP* APPROVAL GROUP*)",
    "AGREES": "(?:GROUP+ BE? EXPLICIT? AGREE+ APPROVAL?)",
    "ASKS": "(?:FIRST? EXPLICIT? (?:ASK|AGREE)+ GROUP* APPROVAL? GROUP* FIRST?)",
    "LATER": "(?:WITHOUT|UNLESS|BEFORE)",
    "OBJECT": "(?:GROUP* (?:PROMPT|PII|SECRET|PHRASE? QUOTE))",
    "COUNT": "(?:NUM TIMES|TIMES|ONCE)",
    "CALLED": "(?:TOOLCALL|TOOLWORD)",
    "SPAN": "(?:ATONCE|TURN)",
    "AGAINST": "(?:SAME (?:W|LITWORD|PHRASE|SAY|TOOLS)+)",  # with the same arguments
    "AFRESH": "(?:AGAIN|MULTIPLE TIMES|MORETHAN ONCE|TIMES)",
    "HERE": "(?:ANSWER|EACH|PERSON|SAY|REPLY)*",
    "QUOTES": "(?:QUOTE(?: SEP+ QUOTE)*)",
    "FORMS": "(?:(?:FORM|JSON)(?: SEP+ (?:NO|EACH)? (?:FORM|JSON))*)",
    "REST": "(?: SEP+ (?:W|SAY|ASK|PERSON|ANSWER|KEEP|REPLY|EACH|QUESTION|PII|SEP)*)?",  # more that no rule can check
    "LITERALS": "(?:(?:LITERAL|CODE)+ LITWORD?(?: SEP+ LITWORD? (?:LITERAL|CODE)+ LITWORD?)*)",
    "TAIL": "(?:ANYWAY|SEP)*",
    "THING": "(?:W|TOOLWORD|ANSWER|TOOLCALL|NAME|PHRASE|SAY|REPLY|DEED|LITWORD|FORM|QUESTION)",
    "THINGS": "(?:GROUP* THING THING? THING?)",
}


def _expanded(text: str) -> str:
    while any(re.search(rf"\b{name}\b", text) for name in _MACROS):
        for name, body in _MACROS.items():
            text = re.sub(rf"\b{name}\b", body, text)
    return text


def _pattern(text: str) -> str:
    """Return the production as a pattern over letters; ``<name: ...>>`` marks what a builder needs."""
    text = re.sub(r"<(\w+):", r"(?P<\1>", text).replace(">>", ")")
    known = set(SYMBOLS)

    def letter(match: re.Match[str]) -> str:
        if match.group() not in known:
            raise ValueError(f"{match.group()} is no symbol of the grammar")
        return LETTER[match.group()]

    pieces = re.split(r"(\(\?P<\w+>)", _expanded(text))
    return "".join(piece if piece.startswith("(?P<") else _WORD.sub(letter, piece).replace(" ", "") for piece in pieces)


_PRODUCTIONS: Final[tuple[Production, ...]] = (*_ABOUT_CALLS, *_ABOUT_LIMITS, *_ABOUT_TEXTS)
_COMPILED: Final = tuple((re2.compile(_pattern(text)), builder) for builder, texts in _PRODUCTIONS for text in texts)
# Most statements fit no production: one look says so.
_FITS: Final = re2.compile(
    "|".join(re.sub(r"\?P<\w+>", "?:", _pattern(text)) for _, texts in _PRODUCTIONS for text in texts)
)


def parse(tokens: Sequence[Token]) -> Reading | None:
    """Return the concrete reading of a statement, or None where a word is left over."""
    solid = [token for token in tokens if token.symbol]
    text = "".join(LETTER[token.symbol] for token in solid)
    if len(text) > _LONGEST_RULE or any(token.guessed for token in solid):
        return None
    if _FITS.fullmatch(text) is None:
        return None
    for pattern, builder in _COMPILED:
        match = pattern.fullmatch(text)
        if match is not None:
            parts = {name: match.span(number) for name, number in pattern.groupindex.items()}
            reading = builder(Fit(solid, parts))
            if reading is not None:
                guess = any(token.described for token in solid)
                return replace(reading, frame=builder.__name__, guess=guess or reading.guess)
    return None


_LONGEST_RULE: Final = 600  # symbols
