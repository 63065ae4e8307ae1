"""What the productions of the grammar say: a statement that one fits becomes a reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from stream_guard_compliance.reading.symbols import COUNTED
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import PER_AGENT, TEXT_WITH_CALLS, Reading
from stream_guard_compliance.reading.word_lists import word_set


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
            if token.symbol == "NUM":
                return int(self.amount())
            if token.symbol in {"TIMES", "ONCE"}:
                return {"once": 1, "twice": 2, "thrice": 3}.get(token.low, -1)  # "times" alone is no number
        return 0


Builder: TypeAlias = Callable[[Fit], "Reading | None"]


def forbid(fit: Fit) -> Reading | None:
    """These tools must not be called."""
    return Reading("forbid_tool", fit.tools())


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
    first, second = fit.tools("first"), fit.tools("second")
    if not first or not second or set(first) & set(second):
        return None
    either = any(token.low == "or" for token in fit.of("first"))
    each_time = bool(fit.of("each"))
    return Reading("order", (*first, *second), first=first, second=second, each_time=each_time, either=either)


def in_order_described(fit: Fit) -> Reading | None:
    """What has to wait is an action in words: which tools it means, compiling decides."""
    first = fit.tools("first")
    return Reading("order", first, first=first, described=tuple(token.low for token in fit.of("deed")))


def follow(fit: Fit) -> Reading | None:
    """When one call was made, another has to come."""
    reading = in_order(fit)
    return replace(reading, follows=True) if reading else None


def confirm(fit: Fit) -> Reading | None:
    """A yes has to come before these tools are called."""
    superiors = [token.low.removesuffix("'s") for token in fit.tokens if token.symbol == "SUPERIOR"]
    return Reading("confirm_before", fit.tools(), by=superiors[0] if superiors else "")


def confirm_described(fit: Fit) -> Reading | None:
    """An action in words: which tools it means, compiling decides."""
    superiors = [token.low.removesuffix("'s") for token in fit.tokens if token.symbol == "SUPERIOR"]
    words = tuple(token.low for token in fit.of("deed"))
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
    return Reading("limit", (f"{unit}<={_most(fit)}",))


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
    return Reading("limit", (f"calls<={_most(fit)}",), window=_windowed(fit))


def tool_times(fit: Fit) -> Reading | None:
    """No more calls of these tools than this."""
    if _most(fit) < 0:
        return None
    tools = fit.tools() or fit.tools("more")
    return Reading("limit", tuple(f"{tool}<={_most(fit)}" for tool in tools), window=_windowed(fit))


def _windowed(fit: Fit) -> bool:
    return any(token.symbol == "WINDOW" for token in fit.tokens)


def parallel(fit: Fit) -> Reading | None:
    """No more calls at the same time than this."""
    n = fit.number() if fit.of("n") else 1
    return Reading("limit", (f"parallel<={n}",)) if n > 0 else None


def retries(fit: Fit) -> Reading | None:
    """No more retries than this."""
    if _most(fit) < 0:
        return None
    return Reading("limit", (f"retries<={_most(fit)}",))


def described_actions(fit: Fit) -> Reading | None:
    """An action that is described in words has a limit; compiling decides which tools it means."""
    if _most(fit) < 0:
        return None
    if fit.number() < _FEW and not any(token.symbol == "SESSION" for token in fit.tokens):
        return None
    words = tuple(token.low for part in ("deed", "object") for token in fit.of(part))
    return Reading("limit", (), described=words, over=float(_most(fit)))


def failures(fit: Fit) -> Reading | None:
    """No more failures than this."""
    return Reading("limit", (f"failures<={fit.number()}",), described=tuple(token.low for token in fit.of("deed")))


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
    if quotes and any(token.symbol == "SAY" and token.low in _WRITES for token in fit.tokens):
        return None  # what is written or added may be a file
    for token in fit.of("objects"):
        if token.symbol == "PROMPT":
            items.append("system_prompt")
        elif token.symbol == "SECRET":
            items.append("secrets")
        elif token.symbol == "PII":
            sort = next((name for name, starts in _PII.items() if token.low.startswith(starts)), "")
            items.append(f"pii:{sort}" if sort else "pii")
        elif token.symbol in {"QUOTE", "TOOL"}:
            items.append(token.text)
        elif token.symbol not in {"SEP", "PERSON", "SUPERIOR", "EXPLICIT", "EACH", "PHRASE"}:
            left.append(token.low)
    place: Any = "end" if fit.of("close") else "start" if fit.of("open") else ""
    return Reading("forbid_output", tuple(dict.fromkeys(items)), left=tuple(left), place=place) if items else None


def forbid_names(fit: Fit) -> Reading | None:
    """A response must not name these."""
    if any(token.symbol == "SAY" and token.low in _WRITES for token in fit.tokens):
        return None
    names: list[str] = []
    joined = True
    for token in fit.of("names"):
        if token.symbol != "NAME":
            joined = True
            continue
        if joined:
            names.append(token.text)
        else:
            names[-1] = f"{names[-1]} {token.text}"
        joined = False
    return Reading("forbid_output", tuple(names))


def text_with_calls(_fit: Fit) -> Reading | None:
    """A response that calls a tool must have no text."""
    return Reading("forbid_output", (TEXT_WITH_CALLS,))


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


def json_answer(_fit: Fit) -> Reading | None:
    """A response must be JSON."""
    return Reading("require_output", ("json",))


def forbid_arg(fit: Fit) -> Reading | None:
    """No call may have these texts in its arguments."""
    groups: list[list[str]] = [[]]
    for token in fit.of("literals"):
        if token.symbol == "SEP":
            groups.append([])
        elif token.symbol == "CODE":
            groups += [[token.text], []]
        else:
            groups[-1].append(token.text)
    return Reading("forbid_arg", tuple(" ".join(group) for group in groups if group))


def over_amount(fit: Fit) -> Reading | None:
    """These tools must not be called over an amount."""
    return Reading("conditional", fit.tools(), over=fit.amount(), details=(fit.words("amount"),))
