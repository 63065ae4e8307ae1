"""The statements of a sentence, and a statement as the grammar takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.clauses import leading_and_main, opens_leading
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
    leads = _length_of_leading(tokens)
    only_leads = bool(leads)  # so far there is only the clause before the main one
    for number, token in enumerate(tokens):
        depth = max(0, depth + (token.symbol == "OPENED") - (token.symbol == "CLOSED"))
        joins = token.symbol == "SEP" or token.low == "but"
        allows = token.low == "but" and any(one.symbol == "FREE" for one in tokens[number:])  # "but more is fine"
        begins = allows or (joins and not only_leads and _is_new_order(tokens[number + 1 : number + 4]))
        begins = begins or (token.low == "and" and not only_leads and _is_clause(tokens[number + 1 : number + 7]))
        if depth == 0 and token.text == ":" and _are_tools(tokens[number + 1 :]):
            continue  # "only these tools: search, read"
        if depth == 0 and token.text == ":" and [one.symbol for one in tokens[number + 1 : number + 2]] in _BOUNDS:
            continue  # "be concise: fewer than 6 lines"
        if depth == 0 and (token.symbol == "CUT" or begins):
            statements.append([])
            following = [one for one in tokens[number + 1 : number + 4] if one.symbol != "SEP"]
            leads = number + 1 + _length_of_leading(tokens[number + 1 :]) if following else 0
            only_leads = leads > number + 1
        else:
            statements[-1].append(token)
            only_leads = only_leads and number + 1 < leads
    return [statement for statement in statements if any(token.symbol for token in statement)] or [list(tokens)]


_BOUNDS: Final = (["ATMOST"], ["FEWER"])


def _are_tools(tokens: Sequence[Token]) -> bool:
    return any(token.symbol == "TOOL" for token in tokens) and all(
        token.symbol in {"TOOL", "SEP", ""} for token in tokens
    )


def _length_of_leading(tokens: Sequence[Token]) -> int:
    """Return how many tokens the clause before the main one takes: "Before booking, cancelling or changing it,"."""
    first = next((number for number, token in enumerate(tokens) if token.symbol != "SEP"), len(tokens))
    if first == len(tokens) or not opens_leading(tokens[first:]):
        return 0
    comma = _first_comma(tokens, first) + 1
    if any(token.symbol == "OPENED" for token in tokens[first:comma]):
        return comma
    leading, main = leading_and_main(tokens[first:])
    return max(comma, first + len(leading)) if leading and main else comma


def _first_comma(tokens: Sequence[Token], first: int) -> int:
    """Return where the first comma outside brackets stands, or -1."""
    depth = 0
    for number, token in enumerate(tokens):
        depth = max(0, depth + (token.symbol == "OPENED") - (token.symbol == "CLOSED"))
        if token.text == "," and number > first and depth == 0:
            return number
    return -1


def _is_new_order(following: Sequence[Token]) -> bool:
    """Whether an order begins behind an "and", a "but" or a comma."""
    symbols = [token.symbol for token in following if token.symbol]
    lows = [token.low for token in following]
    # "and only with the user's approval" and "never both" go on with what stands before them.
    if "only with" in lows or lows[1:2] == ["both"] or (symbols[:1] == ["BAN"] and lows[1:2] in _GOES_ON):
        return False
    if symbols[:1] == ["BAN"]:
        return lows[0] not in {"avoid", "not to"}
    duty = symbols[:1] == ["DUTY"] and lows[0] in {"must", "should", "always"}
    return duty or _follows_from_it(symbols, lows) or symbols[:2] in _NEW


_GOES_ON: Final = (["with"], ["by"], ["via"], ["through"], ["for"], ["in"], ["on"], ["from"])  # ", never with X"
_NEW: Final = (["YOU", "DUTY"], ["YOU", "BAN"], ["SEP", "BAN"], ["SEP", "IF"], ["NO", "FORM"])


def _follows_from_it(symbols: Sequence[str], lows: Sequence[str]) -> bool:
    """Whether an order follows from what goes before it: "so call X", "so X is never to be used"."""
    orders = len(lows) > 1 and (lows[1].partition(" ")[0] in VERBS or lows[1] == "please")
    return lows[:1] == ["so"] and (orders or symbols[:1] in (["TOOL"], ["BAN"], ["CODE"]))


def _is_clause(following: Sequence[Token]) -> bool:
    """Whether a clause with a subject of its own begins: "and every message must include a tool call"."""
    symbols = [token.symbol for token in following if token.symbol]
    at = next((number for number, symbol in enumerate(symbols) if symbol in {"DUTY", "BAN"}), 0)
    begins = symbols[:1] == ["EACH"] or symbols[:1] == ["ANSWER"]
    return begins and at > 0 and all(symbol in {"EACH", "ANSWER", "W", "TOOLWORD"} for symbol in symbols[:at])


def opened_scope(statement: Sequence[Token]) -> str:
    """Return what the rest of a sentence stands under: a condition, a permission, or words ("The user said: ...")."""
    if not statement:
        return ""
    is_condition = opens_leading(statement) and statement[0].symbol not in _EXPLAINS
    frees = any(token.symbol == "FREE" for token in statement)
    if not is_condition and not frees and not any(token.low in _SPEECH for token in statement):
        return ""
    return " ".join(token.text for token in statement)


def bare(statement: Sequence[Token], *, lists: bool = False) -> list[Token]:
    """Return a statement for the grammar: without examples in brackets, without its reason, without openers.

    With ``lists``, the texts that brackets list belong to it.
    """
    found = _without_topic(_without_purpose(_without_examples(_without_reason(statement), lists=lists)))
    while found and (found[0].symbol == "SEP" or found[0].low in _BEFORE_ORDERS):
        found.pop(0)
    while found and found[-1].symbol == "SEP":
        found.pop()
    return found


def _without_topic(tokens: list[Token]) -> list[Token]:
    """Return a statement without what a yes is about: "the user's approval of the plan" is an approval."""
    for number, token in enumerate(tokens):
        if token.symbol != "APPROVAL":
            continue
        about = next((at for at in range(number + 1, len(tokens)) if tokens[at].low in _TOPICS), None)
        if about is not None and all(one.symbol in {"W", "", "PERSON", "DEED", "TIMES"} for one in tokens[about:]):
            between = [one.symbol for one in tokens[number + 1 : about] if one.symbol]
            inside = [one for one in tokens[number + 1 : about] if one.symbol == "W"]
            if set(between) <= {"PERSON", "EXPLICIT", "W"} and all(one.low in _PLACES for one in inside):
                return [*tokens[: number + 1], *(one for one in tokens[number + 1 : about] if one.symbol != "W")]
    return tokens


_TOPICS: Final = word_set("of regarding about concerning on")
_PLACES: Final = word_set("chat conversation")


def without_purposes(tokens: Sequence[Token]) -> list[Token]:
    """Return a statement without what its parts are for: "use A to open a file before B to change it"."""
    found: list[Token] = []
    skips = False
    for number, token in enumerate(tokens):
        if skips and token.symbol in _ENDS_PURPOSE:
            skips = False
        following = tokens[number + 1].low if number + 1 < len(tokens) else ""
        is_infinitive = token.low == "to" and not token.symbol and following in VERBS
        if is_infinitive or (token.symbol == "BECAUSE" and number):
            skips = True
        if not skips:
            found.append(token)
    return bare(found)


_ENDS_PURPOSE: Final = frozenset(("BEFORE", "SEP", "THEN", "CUT", "UNLESS", "WITHOUT", "AFTER", "TURN", "ATONCE"))


def _without_reason(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens without the reason at their end; what holds even then holds without that, too."""
    for number, token in enumerate(tokens):
        if number and (
            token.symbol == "EVEN" or (token.symbol == "BECAUSE" and token.low not in {"so that", "in order to"})
        ):
            return tokens[:number]
    return tokens


def _without_examples(tokens: Sequence[Token], *, lists: bool) -> list[Token]:
    """Return the tokens with literal texts in brackets as such, and without an example or a yes; others are content."""
    found: list[Token] = []
    inside: list[Token] | None = None
    for token in tokens:
        if token.symbol == "OPENED":
            inside = []
        elif token.symbol == "CLOSED" and inside is not None:
            found += (_listed(inside) if lists else []) or (
                [] if _is_harmless(inside) else [replace(token, symbol="W")]
            )
            inside = None
        elif inside is not None:
            inside.append(token)
        else:
            found.append(token)
    return found if inside is None else [*found, *(replace(token, symbol="W") for token in inside[:1])]


def _is_harmless(inside: Sequence[Token]) -> bool:
    symbols = [token.symbol for token in inside if token.symbol]
    return symbols[:1] in (["SUCHAS"], ["ADVICE"]) or set(symbols) <= {"APPROVAL"}


_TEXTS: Final = frozenset(("QUOTE", "CODE", "LITERAL", "FILE"))
_LONGEST_PIECE: Final = 4  # words of one text in a list of them


def _listed(inside: Sequence[Token]) -> list[Token]:
    """Return the texts that brackets list, each as one token: quotes, or commands with their flags."""
    pieces: list[list[Token]] = [[]]
    for token in inside:
        if token.symbol == "SEP" or not token.symbol:
            pieces += [[]] if token.symbol else []
        elif token.symbol != "SUCHAS":
            pieces[-1].append(token)
    texts = [piece for piece in pieces if piece and len(piece) <= _LONGEST_PIECE and piece[-1].symbol in _TEXTS]
    quoted = all(len(piece) == 1 for piece in texts)
    if not texts or any(len(piece) > _LONGEST_PIECE for piece in pieces) or (quoted and len(texts) < len(pieces) - 1):
        return []
    found = [replace(inside[0], symbol="SUCHAS", text="such as")]
    for number, piece in enumerate(texts):
        if number:
            found.append(replace(piece[0], symbol="SEP", text=","))
        symbol = piece[-1].symbol
        found.append(replace(piece[-1], symbol=symbol, text=" ".join(token.text for token in piece)))
    return found


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
