"""What is said: texts that answers must not have or must have, and texts before or after a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, words_of
from stream_guard_compliance.reading.composed.acts import Act, act_of, is_narrowed_behind
from stream_guard_compliance.reading.composed.segments import Parts
from stream_guard_compliance.reading.text_forms import NAMES as FORM_NAMES
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import TEXT_WITH_CALLS, Reading
from stream_guard_compliance.reading.verbs import VERBS
from stream_guard_compliance.reading.voices import base_of
from stream_guard_compliance.reading.word_lists import word_set

_SPEAKS: Final = frozenset(("SAY", "REPLY", "DISCLOSE"))
_VERBS: Final = word_set(
    "say says saying send tell reply respond answer inform output write state display announce mention use include "
    "refer call quote repeat start starting begin beginning open end finish sign close disclose reveal"
)
_STARTS: Final = word_set("start starts starting begin begins beginning open opening")
_ENDS: Final = word_set("end ends ending finish finishing close closing sign conclude")
_WRITING: Final = word_set("write edit create file files patch replace insert document code notebook")
_WORDS: Final = word_set("word words phrase phrases term terms expression expressions sentence like")


def read_said(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return what a statement says about texts."""
    tokens = parts.main.tokens
    if _is_apart(parts):
        return Reading("forbid_output", (TEXT_WITH_CALLS,), frame="composed: no text with a call")
    if parts.others:
        beside = len(parts.others) == 1 and not parts.of("if")
        return _said_beside(parts, catalogue) if beside else None
    if parts.polarity == "only" and _asks_by_tool(tokens):
        return Reading("forbid_output", ("question_end",), shape="form", frame="composed: forms of text")
    if parts.polarity == "not":
        return _forbidden(tokens, catalogue)
    if any(token.symbol == "SKIP" for token in [one for one in tokens if one.symbol][:2]):
        return _forms(tokens, catalogue)  # "leave out tables"
    return _required(tokens, catalogue) if parts.polarity in {"must", "only"} else None


def _asks_by_tool(tokens: Sequence[Token]) -> bool:
    """Whether questions are for a tool alone: "only ask the user questions with ask_user"."""
    asking = [token for token in tokens if token.symbol == "TOOL" and set(words_of(token.text)) & {"ask", "question"}]
    return len(asking) == 1 and any(token.symbol == "QUESTION" for token in tokens)


def _is_apart(parts: Parts) -> bool:
    """Whether what a response says and what it calls exclude each other: "if you call a tool, do not respond"."""
    tokens = parts.main.tokens
    if len(parts.others) == 1 and parts.polarity == "not" and parts.others[0].relation == "if":
        both = (*parts.others[0].tokens, *tokens)
        return _speaks_and_calls(both) and all(token.symbol in _ANSWER_OR_CALL for token in both)
    words = {token.low for token in tokens}
    at_once = any(token.symbol in {"TURN", "ATONCE"} for token in tokens) or bool(words & {"both", "either", "while"})
    apart = parts.polarity == "not" or bool(words & {"both", "either"})
    return not parts.others and apart and at_once and _speaks_and_calls(tokens)


def _speaks_and_calls(tokens: Sequence[Token]) -> bool:
    """Whether an answer and a call are meant."""
    symbols = {token.symbol for token in tokens}
    words = {word for token in tokens for word in token.low.split()}
    speaks = "REPLY" in symbols or bool(words & _TALKS)
    return speaks and (bool(symbols & {"TOOLCALL", "TOOLWORD"}) or "act" in words) and "TOOL" not in symbols


_TALKS: Final = word_set("speak speaks speaking talk talks talking text prose tell say")
_ANSWER_OR_CALL: Final = frozenset(
    (
        *("", "YOU", "KEEP", "CALL", "TOOLCALL", "TOOLWORD", "REPLY", "SAY", "PERSON", "SEP", "EACH", "ATONCE", "TURN"),
        *("BAN", "DUTY", "NO", "MAY"),
    )
)
_IN_JSON: Final = word_set(
    "return single object valid other text exactly one only following format structure raw strict string as in just "
    "plain output key keys field fields"
)


def _required(tokens: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    """An answer that is JSON, or has a tag around it."""
    symbols = {token.symbol for token in tokens}
    speaks = bool(symbols & {"REPLY", "ANSWER"}) or any(token.low in {"output", "return"} for token in tokens[:3])
    act = act_of([token for token in tokens if token.symbol not in {"REPLY", "ANSWER", "QUOTE"}], catalogue)
    early = any(
        token.symbol in {"REPLY", "ANSWER", "SAY"} or token.low == "return"
        for token in [one for one in tokens if one.symbol][:3]
    )
    if (
        not speaks
        or not early
        or "TOOL" in symbols
        or act.narrowed
        or any(token.low in {"or", "final"} for token in tokens)
    ):
        return None
    if "JSON" in symbols and not {word for word in act.left if not word.isdigit()} - _IN_JSON:
        return Reading("require_output", ("json",), frame="composed: an answer in JSON")
    tags = tuple(token.text for token in tokens if token.text[:1] == "<" and token.text[-1:] == ">")
    wraps = any(token.low in {"wrap", "enclose", "put", "place", "enclosed", "wrapped"} for token in tokens)
    if len(tags) == 1 and wraps and symbols & {"ANSWER"}:
        return Reading("require_output", tags, frame="composed: an answer in tags")
    return None


def _said_beside(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """A text before a call, or behind it; an answer that has to wait for a call."""
    other = parts.others[0]
    main, beside = act_of(parts.main.tokens, catalogue), act_of(other.tokens, catalogue)
    speaks = any(token.symbol in _SPEAKS or token.low in _VERBS for token in parts.main.tokens)
    if parts.polarity == "must" and main.quotes and speaks and not main.tools and beside.tools and not beside.left:
        if other.relation == "before":
            return Reading(
                "require_output", main.quotes, second=beside.tools, shape="say_first", frame="composed: said before"
            )
        if other.relation == "after":
            return Reading(
                "require_output", main.quotes, first=beside.tools, shape="say_after", frame="composed: said after"
            )
    if parts.polarity == "must" and other.relation == "followed" and main.quotes and speaks and not main.tools:
        if beside.tools and not beside.left and not beside.quotes:  # "say "One moment." and then call X"
            return Reading(
                "require_output", main.quotes, second=beside.tools, shape="say_first", frame="composed: said before"
            )
        return None
    if parts.polarity == "must" and other.relation == "followed" and main.tools and beside.quotes and not main.left:
        return Reading(
            "require_output", beside.quotes, first=main.tools, shape="say_after", frame="composed: said after"
        )
    return _answer_waits(parts, main, beside)


def _answer_waits(parts: Parts, main: Act, beside: Act) -> Reading | None:
    """No answer before a call: "call X before answering", "do not answer before X was called"."""
    other = parts.others[0]
    if other.relation != "before" and not (parts.polarity == "not" and other.relation == "unless"):
        return None
    answer, call, said = (main, beside, parts.main) if parts.polarity == "not" else (beside, main, other)
    answers = any(
        token.symbol == "REPLY" or token.low in {"answering", "responding", "replying"} for token in said.tokens
    )
    named = answer.tools and not answer.described
    if not answers or named or not call.tools or call.described or set(answer.left) - _ANSWERING:
        return None
    return Reading(
        "order", call.tools, first=call.tools, either=True, shape="answer_after", frame="composed: no answer before"
    )


_ANSWERING: Final = word_set(
    "answer answering respond responding reply replying question questions directly chat final"
)


def _forbidden(tokens: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    words = {word for token in tokens for word in token.low.split()}
    quotes = tuple(token.text for token in tokens if token.symbol == "QUOTE")
    if quotes and ({token.symbol for token in tokens if token.symbol} <= _BARE or _are_words(tokens)):
        return Reading("forbid_output", quotes, frame="composed: texts not said")
    named = any(token.symbol == "TOOL" and not token.described for token in tokens)
    if not words & _VERBS and not any(token.symbol in _SPEAKS for token in tokens):
        return _forms(tokens, catalogue)
    if quotes and not named:
        return _texts_not_said(tokens, quotes, words, catalogue)
    found = None if named else _names_not_said(tokens, words, catalogue)
    return found or _forms(tokens, catalogue)


def _texts_not_said(
    tokens: Sequence[Token], quotes: tuple[str, ...], words: set[str], catalogue: Catalogue
) -> Reading | None:
    act = act_of([token for token in tokens if token.symbol != "QUOTE"], catalogue)
    place = "start" if words & _STARTS else "end" if words & _ENDS else ""
    writes = any(set(words_of(name)) & _WRITING for name in catalogue.names)
    doubtful = {"include", "use", "using", "call", "refer", *({"write", "add", "output"} if writes else ())}
    written = words & doubtful and not words & _WORDS
    if written or act.narrowed or len(act.left) > _MOST_BEFORE or is_narrowed_behind(tokens, frozenset(("QUOTE",))):
        return None
    return Reading("forbid_output", quotes, place=place, left=act.left, frame="composed: texts not said")  # type: ignore[arg-type]


def _names_not_said(tokens: Sequence[Token], words: set[str], catalogue: Catalogue) -> Reading | None:
    """Names that answers must not have: those of the tools, or those that capitals show."""
    if words & {"tool", "tools"} and "names" in words:
        names = tuple(name for name in catalogue.names if "_" in name or "." in name)
    else:
        discloses = any(token.symbol == "DISCLOSE" for token in tokens)
        names = tuple(token.text for token in tokens if token.symbol == "NAME") if discloses else ()
    return Reading("forbid_output", names, frame="composed: names not said") if names else None


_BARE: Final = frozenset(("NO", "QUOTE", "SEP"))


def _are_words(tokens: Sequence[Token]) -> bool:
    """Whether words are called forbidden: "The words "a" and "b" are taboo"."""
    solid = [token for token in tokens if token.symbol not in {"", "SEP", "QUOTE", "BE"}]
    return [token.symbol for token in solid[-1:]] == ["FORBIDDEN"] and all(one.low in _WORDS for one in solid[:-1])


_MOST_BEFORE: Final = 6  # words that describe the texts


def _forms(tokens: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    """Forms of text that answers must not have; others of the list are left to judgement."""
    named = tuple(dict.fromkeys(token.text for token in tokens if token.symbol == "TOOL" and not token.described))
    if len(named) == 1 and any(token.low in {"passed", "given", "handed"} for token in tokens):
        last = max((at for at, token in enumerate(tokens) if token.symbol == "FORM"), default=-1)
        inner = _forms([token for token in tokens[: last + 1] if token.symbol != "TOOL"], catalogue)
        return replace(inner, first=named, left=()) if inner is not None else None
    found = [token for at, token in enumerate(tokens) if token.symbol == "FORM" and not _is_modified(tokens, at)]
    forms = tuple(dict.fromkeys(FORM_NAMES[token.low] for token in found))
    person = any(token.symbol == "PERSON" for token in tokens)
    if (
        not forms
        or (forms == ("code",) and not person)
        or any(token.symbol in {"TOOL", "CODE", "COMMAND"} for token in tokens)
    ):
        return None
    spoken = [token for token in tokens if token.symbol == "W"]
    if _is_done_to(tokens):
        return None
    act = act_of(spoken, catalogue)
    first = () if len(spoken) > 1 else act.tools
    behind = act_of([token for token in tokens if token.symbol != "FORM"], catalogue).narrowed and not first
    if behind or len(spoken) > _MOST_LEFT:
        return None
    left = () if first else tuple(token.low for token in spoken)
    return Reading("forbid_output", forms, first=first, shape="form", left=left, frame="composed: forms of text")


def _is_done_to(tokens: Sequence[Token]) -> bool:
    """Whether something is done to things that are there, which are not put into a text: "Links are never opened"."""
    form = next((at for at, token in enumerate(tokens) if token.symbol == "FORM"), len(tokens))
    for at, token in enumerate(tokens):
        verb = base_of(token)
        low = token.low if verb is None else verb.low
        if low in _PUTS:
            continue
        if token.symbol == "W" and (low in VERBS or (at > form and low.endswith("ed"))):
            return True
        if low == "open" and not any(later.low == "with" for later in tokens[at:form]):
            return True
    return False


def _is_modified(tokens: Sequence[Token], at: int) -> bool:
    """Whether the word before a form says which of it are meant: "licence headers", "nested bullets"."""
    before = next((token for token in reversed(tokens[:at]) if token.symbol not in {"", "EACH"}), None)
    return before is not None and before.symbol == "W" and before.low not in VERBS | _ANY_OF_IT


_ANY_OF_IT: Final = word_set("other such external clickable fancy putting writing sending markdown")
_PUTS: Final = word_set(
    "use put write send insert produce generate return respond reply answer contain render format type paste embed "
    "append attach give offer begin end start finish make create output emit print post speak talk read say include "
    "display show add share mention present list provide employ apply introduce"
)
_MOST_LEFT: Final = 5  # words of a list of forms that no pattern sees
