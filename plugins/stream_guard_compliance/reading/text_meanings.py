"""What productions about texts and arguments say: a statement that one fits becomes a reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stream_guard_compliance.reading.commands import NAMES as COMMAND_NAMES
from stream_guard_compliance.reading.commands import is_command
from stream_guard_compliance.reading.fit import Fit
from stream_guard_compliance.reading.text_forms import NAMES as FORM_NAMES
from stream_guard_compliance.reading.text_forms import SAYS_CODE
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set

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
