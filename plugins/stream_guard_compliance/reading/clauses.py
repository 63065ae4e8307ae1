"""The statements of a sentence and their clauses: what goes before the main one, and whom the main one means."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from stream_guard_compliance.reading.symbols import BOTH, OPENERS, VERBS
from stream_guard_compliance.reading.values import Modality, Token, word_set

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


# The statements of a sentence, and a statement as the grammar takes it.

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
