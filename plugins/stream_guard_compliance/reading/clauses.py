"""The clauses of a statement: what goes before the main one, and whom the main one means."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Modality
from stream_guard_compliance.reading.verbs import BOTH, OPENERS, VERBS
from stream_guard_compliance.reading.word_lists import word_set

Who: TypeAlias = Literal["agent", "person", "thing", "nobody"]
Meant: TypeAlias = tuple[Who, Modality]

CONDITIONS: Final = frozenset(("IF", "UNLESS"))
PREPOSITIONS: Final = word_set("for in on with to during within given at under upon across outside inside")

_FACT: Final[Meant] = ("nobody", "fact")
_LEADING: Final = frozenset(("IF", "UNLESS", "ONCE", "AFTER", "BEFORE", "EVEN", "BECAUSE", "WITHOUT"))
_NOT_LEADING: Final = word_set("addition general particular order short fact total summary this other contrast all")
_ORDERS: Final = frozenset(
    (
        *("ADVICE", "AGREE", "ASK", "BAN", "CALL", "CITE", "CLOSE", "DISCLOSE", "DUTY", "FIRST", "FREE", "KEEP", "NO"),
        *("ONLY", "OPEN", "REPLY", "RUN", "SAY", "SKIP", "STOP"),
    )
)
_FINITE: Final = word_set(
    "will would has have does did means contains consists remains becomes allows returns shows gives"
)
_MODALS: Final = word_set("must should shall has have need needs required ought supposed expected")
_HEDGES: Final = word_set("by generally typically usually normally ideally preferably")  # first words of phrases
_DETERMINERS: Final = word_set("the a an our your their its his her my this these those")
_SOME: Final = word_set("some many most certain several we i")
_OTHERS: Final = word_set("they it he she this these those that its their there here my")
_NO_ORDER_BEFORE: Final = word_set("to not can will would they we i who that it does did")
_MOST_COMMAS: Final = 12  # that are looked at for the beginning of the main clause
_MOST_LEADING: Final = 4  # clauses before the main one


def without_brackets(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens outside brackets: what stands inside explains and does not ask."""
    found: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.symbol == "OPENED") - (token.symbol == "CLOSED" and depth > 0)
        if depth == 0 and token.symbol != "CLOSED":
            found.append(token)
    return found


def opens_leading(rest: Sequence[Token]) -> bool:
    """Whether a statement begins with a clause that goes before the main one."""
    first = rest[0]
    return first.symbol in _LEADING or (
        first.low in PREPOSITIONS and not (len(rest) > 1 and rest[1].low in _NOT_LEADING)
    )


def leading_and_main(tokens: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """Return the clauses that stand before the main one, and the main one."""
    rest = _without_openers(tokens)
    leading: list[Token] = []
    for _ in range(_MOST_LEADING):
        if not rest or not opens_leading(rest):
            break
        cut = _main_begins(rest)
        if cut is None:
            return leading, rest
        leading, rest = leading + rest[:cut], _without_openers(rest[cut:])
    return leading, rest or list(tokens)


def _without_openers(tokens: Sequence[Token]) -> list[Token]:
    start = 0
    while start < len(tokens) and _is_opener(tokens[start]):
        start += 1
    return list(tokens[start:])


def _is_opener(token: Token) -> bool:
    """Whether a word before an order changes nothing about it: "Then", "carefully"."""
    if token.symbol not in {"", "W", "FIRST", "SEP", "EXPLICIT"}:
        return False
    low = token.low
    return token.symbol == "SEP" or low in OPENERS or (low.endswith("ly") and low not in VERBS and len(low) > 5)


def _main_begins(rest: Sequence[Token]) -> int | None:
    """Return where the main clause begins: behind the comma before an order, behind the first comma, or at a verb."""
    commas = [number for number, token in enumerate(rest) if token.text == "," or token.symbol == "CUT"]
    for number in commas[:_MOST_COMMAS]:
        if _begins_order(rest[number + 1 : number + 13]):
            return number + 1
    if commas:
        return commas[0] + 1
    begins = next((number for number in range(1, len(rest)) if _is_verb_of_main(rest, number)), None)
    return begins if begins is not None else _main_for_you(rest)


def _main_for_you(rest: Sequence[Token]) -> int | None:
    """Return where a main clause begins with "you must": "After each search you must call X"."""
    solid = [number for number, token in enumerate(rest) if token.symbol]
    for number, following in itertools.pairwise(solid[1:]):
        if rest[number].symbol == "YOU" and rest[following].symbol in {"DUTY", "BAN"}:
            return number
    return None


def _is_verb_of_main(rest: Sequence[Token], number: int) -> bool:
    """Whether the main clause begins here although no comma says so: "if it is there say so"."""
    token, before = rest[number], rest[number - 1]
    if token.symbol == "TOOL":
        return rest[0].symbol in {"BEFORE", "AFTER"} and before.symbol not in {"CALL", "RUN", "BEFORE", "AFTER"}
    orders = token.symbol in {"BAN", "DUTY", "FIRST"} or (
        token.low in VERBS and token.low not in BOTH and token.symbol in {"W", *_ORDERS}
    )
    follows = before.low in _NO_ORDER_BEFORE or before.symbol in {"YOU", "PERSON", "SEP", "MAY"}
    return orders and number > 1 and not follows


def _begins_order(tokens: Sequence[Token]) -> bool:
    solid = [token for token in _without_openers(tokens) if token.symbol]
    if not solid:
        return False
    if solid[0].symbol == "YOU":
        return True
    return is_imperative(solid) and not (solid[0].low in BOTH and len(solid) > 1 and solid[1].symbol == "SEP")


def whom_it_means(main: Sequence[Token], *, leads: bool) -> Meant:
    """Return whom a main clause means, and how strongly; ``leads`` says that another clause goes before it."""
    solid = [token for token in main if token.symbol]
    tokens = _without_openers(solid) or solid
    hedges = 0
    while hedges < len(tokens) - 1 and _is_hedge(tokens[hedges]):
        hedges += 1
    is_noun = not hedges and main[0].low in _DETERMINERS
    who, modality = _meant(tokens[hedges:], leads=leads, is_noun=is_noun) if tokens else _FACT
    return who, "advice" if hedges and (who, modality) == ("agent", "must") else modality


def _is_hedge(token: Token) -> bool:
    """Whether a word before a clause only weakens it: "By default," "Generally,"."""
    return token.symbol == "SEP" or (token.symbol == "ADVICE" and token.low.partition(" ")[0] in _HEDGES)


def _meant(tokens: Sequence[Token], *, leads: bool, is_noun: bool) -> Meant:
    clause = _until_condition(tokens)
    symbols = [token.symbol for token in clause]
    if "FREE" in symbols and "BAN" not in symbols[: symbols.index("FREE")]:
        return "agent", "may"
    if symbols[0] == "YOU":
        return _to_you(clause)
    tool_as_verb = leads and symbols[0] == "TOOL" and not _has_finite(tokens[1:3])
    if (is_imperative(tokens) and not is_noun) or tool_as_verb:
        return "agent", _strength(clause)
    if "YOU" in symbols:
        after = clause[symbols.index("YOU") :]
        if {"DUTY", "BAN"} & {token.symbol for token in after[1:4]} and _to_you(after)[0] == "agent":
            return _to_you(after)
    return _of_thing(clause)


def _until_condition(tokens: Sequence[Token]) -> list[Token]:
    for number, token in enumerate(tokens):
        if number and token.symbol in CONDITIONS:
            return list(tokens[:number])
    return list(tokens)


def _to_you(tokens: Sequence[Token]) -> Meant:
    """Return how strongly a clause with "you" as its subject binds."""
    early = tokens[1:5]
    symbols = [token.symbol for token in early]
    if "MAY" in symbols and "BAN" not in symbols:
        return "agent", "must" if {"ATMOST", "ONLY"} & {token.symbol for token in tokens} else "may"
    acts = bool(symbols) and symbols[0] in {"W", "CALL", "RUN", "SAY", "REPLY"}
    if {"BAN", "DUTY"} & set(symbols[:2] if acts else symbols) and not any(token.low == "will" for token in early[:3]):
        return "agent", _strength(early)
    if "ONLY" in symbols and ("MAY" in symbols or "BE" in symbols):
        return "agent", "must"
    return ("agent", "may") if "FREE" in symbols else _FACT


def is_imperative(tokens: Sequence[Token]) -> bool:
    """Whether a clause gives an order: it begins with a verb in its plain form, and no subject's verb follows."""
    first, low = tokens[0], tokens[0].low
    if first.symbol in {"MAY", "NEED", "CALLN", "TOOL", "QUOTE", "CODE", "NAME"}:
        return False
    if first.symbol in {"BAN", "DUTY", "NO", "FREE", "FIRST", "ADVICE"} or low == "be":
        return True
    if first.symbol == "ONLY":
        return not (len(tokens) > 1 and tokens[1].symbol in {"W", "PERSON"} and tokens[1].low not in VERBS)
    if low in BOTH:
        return not _has_finite(tokens[1:3])
    if first.symbol in {"COMMAND", "PROCEED", "SET", "SPELL", "EDITS", "DELETES"}:
        return low.partition(" ")[0] in VERBS
    return low in VERBS or (first.symbol in _ORDERS and not low.endswith(("ing", "ed", "s")))


def _has_finite(tokens: Sequence[Token]) -> bool:
    """Whether the verb of a subject follows, so that the word before it is a noun: "Output is shown"."""
    for token in tokens:
        if token.symbol in {"SEP", "CUT", "BEFORE", "AFTER", *CONDITIONS}:
            return False
        is_verb = (
            token.symbol == "BE" and token.low in {"is", "are", "was", "were", "will be"}
        ) or token.low in _FINITE
        if is_verb or (token.symbol in {"MAY", "DUTY"} and token.low != "always"):
            return True
    return False


def _strength(tokens: Sequence[Token]) -> Modality:
    symbols = [token.symbol for token in tokens]
    if "ADVICE" in symbols and "BAN" not in symbols[: symbols.index("ADVICE")]:
        return "advice"
    return "must_not" if "NO" in symbols[:1] or "BAN" in symbols[:4] else "must"


def _of_thing(tokens: Sequence[Token]) -> Meant:
    """Return how a clause about a thing binds: "paths must be absolute" does, "we never close" does not."""
    symbols = [token.symbol for token in tokens]
    if symbols[0] == "NOTHING":  # "Nothing may be deleted" forbids
        return ("thing", "must_not") if {"MAY", "DUTY"} & set(symbols[1:3]) else _FACT
    counts = symbols[0] == "NUM" and {"TURN", "ATONCE"} & set(symbols) and "BE" not in symbols  # "One tool per message"
    if counts or tokens[0].low in {"require", "requires"} or symbols[0] in {"ATMOST", "FEWER"}:
        return "thing", "must"
    at = next((number for number in range(len(tokens)) if _binds(tokens, symbols, number)), None)
    first = tokens[0].low
    if (
        at is None
        or first in _SOME
        or ("MAY" in symbols[:at] and symbols[at] != "BAN")
        or (symbols[at] == "NEED" and first in _OTHERS)
    ):
        return _FACT
    if symbols[0] == "PERSON" or (symbols[0] == "EACH" and "PERSON" in symbols[:2]):
        return "person", "must"
    negative = symbols[at] in {"BAN", "FORBIDDEN"} or "BAN" in symbols[at : at + 2]
    return "thing", "must_not" if negative else "must"


def _binds(tokens: Sequence[Token], symbols: Sequence[str], number: int) -> bool:
    """Whether a word of a clause about a thing says what has to be."""
    symbol, word = symbols[number], tokens[number].low.partition(" ")[0]
    if symbol == "BAN" and word in {"cannot", "can"}:
        return tokens[0].low not in _OTHERS and ("BE" in symbols[number + 1 : number + 2] or symbols[0] == "PERSON")
    if symbol == "MAY":
        return _is_restricted(symbols, number)
    if symbol == "ONLY":
        return number > 0 and "BE" in symbols[number - 1 : number + 2] and "CALL" in symbols
    return (
        symbol == "FORBIDDEN"
        or (symbol == "DUTY" and word in _MODALS)
        or (symbol == "BAN" and word in {"must", "should", "shall", "are", "is", "may"})
        or (symbol == "NEED" and number > 0)
    )


def _is_restricted(symbols: Sequence[str], number: int) -> bool:
    """Whether "may" does not allow but restrict: "may only be used", "only X may call", "each may have at most"."""
    if symbols[0] == "ONLY":
        return "CALL" in symbols[number:]
    bounds = {"ONLY", "ATMOST"} if symbols[0] == "EACH" else {"ONLY"}
    return bool(bounds & set(symbols[number : number + 4]))
