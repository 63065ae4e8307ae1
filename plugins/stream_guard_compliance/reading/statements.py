"""The statements of a sentence, and a statement as the grammar takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.clauses import opens_leading
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.verbs import VERBS
from stream_guard_compliance.reading.word_lists import word_set

_BEFORE_ORDERS: Final = word_set("important critical note remember warning please also additionally mandatory")
_SPEECH: Final = word_set("told said says asked asks wrote writes instructed replied claims claimed")
_EXPLAINS: Final = frozenset(("BEFORE", "EVEN", "BECAUSE", "WITHOUT"))


def statements_of(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the statements of a sentence: cut at semicolons, colons and dashes, and before a new order."""
    statements: list[list[Token]] = [[]]
    depth = 0
    only_leads = bool(tokens) and opens_leading(tokens)  # so far there is only the clause before the main one
    for number, token in enumerate(tokens):
        depth = max(0, depth + (token.symbol == "OPENED") - (token.symbol == "CLOSED"))
        joins = token.symbol == "SEP" or token.low == "but"
        begins = joins and not only_leads and _is_new_order(tokens[number + 1 : number + 4])
        if depth == 0 and (token.symbol == "CUT" or begins):
            statements.append([])
            following = [one for one in tokens[number + 1 : number + 4] if one.symbol != "SEP"]
            only_leads = bool(following) and opens_leading(following)
        else:
            statements[-1].append(token)
            only_leads = only_leads and token.text != ","
    return [statement for statement in statements if any(token.symbol for token in statement)] or [list(tokens)]


def _is_new_order(following: Sequence[Token]) -> bool:
    """Whether an order begins behind an "and", a "but" or a comma."""
    symbols = [token.symbol for token in following if token.symbol]
    lows = [token.low for token in following]
    if symbols[:1] == ["BAN"]:
        return lows[0] not in {"avoid", "not to"}
    if symbols[:1] == ["DUTY"] and lows[0] in {"must", "should", "always"}:
        return True
    if lows[:1] == ["so"] and len(lows) > 1 and (lows[1] in VERBS or lows[1] == "please"):
        return True
    return symbols[:2] in (["YOU", "DUTY"], ["YOU", "BAN"], ["SEP", "BAN"], ["SEP", "IF"])


def opened_scope(statement: Sequence[Token]) -> str:
    """Return what the rest of a sentence stands under: a condition, or somebody's words ("The user said: ...")."""
    if not statement:
        return ""
    is_condition = opens_leading(statement) and statement[0].symbol not in _EXPLAINS
    if not is_condition and not any(token.low in _SPEECH for token in statement):
        return ""
    return " ".join(token.text for token in statement)


def bare(statement: Sequence[Token]) -> list[Token]:
    """Return a statement for the grammar: without examples in brackets, without its reason, without openers."""
    found = _without_purpose(_without_examples(_without_reason(statement)))
    while found and (found[0].symbol == "SEP" or found[0].low in _BEFORE_ORDERS):
        found.pop(0)
    while found and found[-1].symbol == "SEP":
        found.pop()
    return found


def _without_reason(tokens: Sequence[Token]) -> Sequence[Token]:
    for number, token in enumerate(tokens):
        if token.symbol == "BECAUSE" and token.low not in {"so that", "in order to"}:
            return tokens[:number]
    return tokens


def _without_examples(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens without brackets that hold an example or a yes; any other bracket is content."""
    found: list[Token] = []
    inside: list[Token] | None = None
    for token in tokens:
        if token.symbol == "OPENED":
            inside = []
        elif token.symbol == "CLOSED" and inside is not None:
            symbols = [one.symbol for one in inside if one.symbol]
            harmless = symbols[:1] == ["SUCHAS"] or set(symbols) <= {"APPROVAL"}
            found += [] if harmless else [replace(token, symbol="W")]
            inside = None
        elif inside is not None:
            inside.append(token)
        else:
            found.append(token)
    return found if inside is None else [*found, *(replace(token, symbol="W") for token in inside[:1])]


def _without_purpose(tokens: list[Token]) -> list[Token]:
    """Return an order of calls without the purpose behind it: "call A before B to see ..." holds whatever it is for."""
    symbols = [token.symbol for token in tokens]
    uses = any(token.symbol == "CALL" and token.low.startswith("us") for token in tokens)  # with what, and what for
    if "BEFORE" not in symbols or "BAN" in symbols or uses:
        return tokens
    for number, token in enumerate(tokens[:-1]):
        is_purpose = token.low == "to" and not token.symbol and tokens[number + 1].low in VERBS
        if is_purpose and "TOOL" in symbols[max(0, number - 3) : number]:
            return tokens[:number]
    return tokens
