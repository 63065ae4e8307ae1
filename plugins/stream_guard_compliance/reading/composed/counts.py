"""How often: calls in a session, in a response, since the user spoke, and the length of answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.composed.acts import Act, act_of
from stream_guard_compliance.reading.composed.bounds import Bound, bound_of, number_of
from stream_guard_compliance.reading.composed.segments import Parts
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set

_UNITS: Final = {"w": "words", "c": "chars", "s": "sentences", "p": "paragraphs", "l": "lines"}
_EXCHANGES: Final = word_set("question request query task prompt")  # "per question": since the user spoke
_FRAMES: Final = word_set(
    "limit limited maximum max most yourself total number more than fewer less short concise brief text output keep "
    "stay per long length reply answer response responses answers messages message contain include have make send "
    "allowed you your single between from enter issue emit execute "
)
_SPEAKS: Final = word_set("text responses answers say speak")
_REPLIES: Final = word_set("reply response message answer")  # "per reply"
_COUNTING: Final = frozenset(
    (
        "NUM",
        "TIMES",
        "ONCE",
        "PARALLEL",
        "MULTIPLE",
        "ATMOST",
        "MORETHAN",
        "FEWER",
        "ORFEWER",
        "TURN",
        "SESSION",
        "ATONCE",
        "EXACTLY",
        "UNIT",
    )
)


def read_count(parts: Parts, catalogue: Catalogue) -> Reading | None:  # noqa: PLR0911  # one for each sort
    """Return how often something may be done, or how long an answer may be."""
    tokens = parts.main.tokens
    if parts.others or (parts.polarity == "fact" and not _is_bare_bound(tokens) and not _each_answer(tokens)):
        return None  # "at most" bounds a permission too
    bound = _bound(tokens, parts) or _one_by_one(tokens, parts)
    symbols = {token.symbol for token in tokens}
    if bound is None or bound.most is None or (bound.least is not None and "UNIT" not in symbols):
        return None
    if any(token.symbol == "NUM" and not token.low[:1].isalnum() for token in tokens):
        return None  # money is no number of calls
    if "UNIT" in symbols:
        return _length(tokens, bound, catalogue)
    if "WINDOW" in symbols:
        return None
    if "QUESTION" in symbols and (symbols & {"ASK", "TURN"}):
        asked = Reading("limit", (f"questions<={_most(bound)}",), frame="composed: questions")
        return asked if "SESSION" not in symbols else None
    return _calls(tokens, bound, catalogue)


def _bound(tokens: Sequence[Token], parts: Parts) -> Bound | None:
    """Return the bound; "only one", "exactly one" and "one at a time" are bounds too."""
    found = bound_of(tokens, parts.polarity)
    if found is not None:
        return found
    solid = [token for token in tokens if token.symbol]
    numbers = [number for token in solid if (number := number_of(token)) is not None]
    per_turn = any(token.symbol in {"TURN", "ATONCE", "SESSION"} for token in solid) or _each_answer(solid)
    single = [token.low for token in solid[-2:]] == ["single", "time"]
    per_turn, says_only = per_turn or single, single or any(token.symbol in {"ONLY", "EXACTLY"} for token in solid)
    twice = any(token.low in {"twice", "thrice"} for token in solid)
    if len(numbers) != 1 or not (per_turn or (twice and parts.polarity == "not")):
        return None
    if parts.polarity == "not":  # "never two in one turn", "never twice"
        return Bound(most=numbers[0] - 1) if numbers[0] > 1 else None
    bound = parts.polarity in {"must", "only", "may"} or _is_bare_bound(tokens)
    return Bound(most=numbers[0]) if bound and (says_only or numbers == [1.0]) else None


def _one_by_one(tokens: Sequence[Token], parts: Parts) -> Bound | None:
    """Return that one is the most where several at once are forbidden: "no parallel calls"."""
    symbols = {token.symbol for token in tokens}
    several = "PARALLEL" in symbols or ("MULTIPLE" in symbols and bool(symbols & {"TURN", "ATONCE"}))
    return Bound(most=1.0) if parts.polarity == "not" and several and "SAME" not in symbols else None


def _is_bare_bound(tokens: Sequence[Token]) -> bool:
    """Whether a bound stands without a verb: "At most two sentences per reply", "One tool per message"."""
    solid = [token.symbol for token in tokens if token.symbol]
    if solid == ["ATMOST", "NUM", "UNIT"]:
        return True  # "Under 25 words."
    one = any(token.low in {"one", "1"} for token in tokens[:1]) and bool({"TURN", "ATONCE"} & set(solid))
    begins = solid[:1] in (["NUM"], ["ATMOST"], ["ONLY"]) and ("ATMOST" in solid or one)
    return begins and bool({"TURN", "SESSION", "ATONCE"} & set(solid)) and not {"BE", "MAY", "SAME"} & set(solid)


def _each_answer(tokens: Sequence[Token]) -> bool:
    """Whether every answer is meant: "each response has exactly one tool call"."""
    first = [token for token in tokens if token.symbol][:2]
    return bool(first) and first[-1 if first[0].symbol == "EACH" else 0].symbol == "ANSWER"


def _most(bound: Bound) -> int:
    return int(bound.most or 0) - bound.strict


def _length(tokens: Sequence[Token], bound: Bound, catalogue: Catalogue) -> Reading | None:
    unit = next(token.low for token in tokens if token.symbol == "UNIT")[0]
    act = act_of([token for token in tokens if token.symbol not in _COUNTING], catalogue)
    if unit not in _UNITS or (act.tools and not act.described) or set(act.left) - _FRAMES:
        return None
    about = any(
        token.symbol in {"ANSWER", "REPLY"} or token.low in _SPEAKS or token.low.split()[-1] in _REPLIES
        for token in tokens
        if token.text
    )
    written = unit in {"s", "p"} and any(token.low == "write" for token in tokens)
    alone = [token.symbol for token in tokens if token.symbol] == ["ATMOST", "NUM", "UNIT"]
    if not about and not written and not alone:
        return None
    return Reading("limit", (f"{_UNITS[unit]}<={_most(bound)}",), frame="composed: the length of an answer")


def _hands_off(tokens: Sequence[Token]) -> bool:
    return any(token.symbol == "CALL" and token.low.startswith("hand") for token in tokens)


def _calls(tokens: Sequence[Token], bound: Bound, catalogue: Catalogue) -> Reading | None:
    rest = [token for token in tokens if token.symbol not in _COUNTING]
    act = act_of(rest, catalogue)
    if not act.tools and any(token.symbol == "AGENTWORD" for token in tokens) and _hands_off(tokens):
        act = Act(tuple(catalogue.handoffs), described=True)
    most = _most(bound)
    turn = next((token for token in tokens if token.symbol in {"TURN", "ATONCE", "PARALLEL"}), None)
    if turn is None and _each_answer(tokens):
        turn = tokens[0]
    exchange = turn is not None and turn.low.split()[-1] in _EXCHANGES
    if not act.tools:
        called = any(token.symbol in {"TOOLCALL", "TOOLWORD"} or token.low == "actions" for token in tokens)
        same = any(token.symbol == "SAME" for token in tokens)
        if called and same and turn is None and catalogue.closed and not set(act.left) - _FRAMES - {"same"}:
            items = tuple(f"{tool}<={most}" for tool in catalogue.names)
            return Reading("limit", items, frame="composed: calls in a session") if most > 0 else None
        if called and turn is not None and not exchange and not set(act.left) - _FRAMES and not same and most > 0:
            return Reading("limit", (f"parallel<={most}",), frame="composed: calls at a time")
        return None
    if set(act.left) - _FRAMES or most < 1:
        return None
    items = tuple(f"{tool}<={most}" for tool in act.tools)
    if turn is None or exchange:
        shape = "per_exchange" if exchange else ""
        return Reading("limit", items, shape=shape, guess=act.described, frame="composed: calls in a session")  # type: ignore[arg-type]
    return Reading("limit", items, shape="per_turn", guess=act.described, frame="composed: calls in a turn")
