"""The reader of composed statements: the parts of a statement, and the senses that they make together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.clauses import opens_leading
from stream_guard_compliance.reading.composed.arguments import read_argument, read_paths
from stream_guard_compliance.reading.composed.counts import read_count
from stream_guard_compliance.reading.composed.given import read_missing, read_needed
from stream_guard_compliance.reading.composed.orders import read_order, read_place, read_which
from stream_guard_compliance.reading.composed.origins import read_origin
from stream_guard_compliance.reading.composed.said import read_said
from stream_guard_compliance.reading.composed.segments import Parts, parts_of, until_reason
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.verbs import BOTH, VERBS

_SENSES: Final[tuple[Callable[[Parts, Catalogue], Reading | None], ...]] = (
    read_origin,
    read_missing,
    read_order,
    read_said,
    read_count,
    read_paths,
    read_argument,
    read_place,
    read_which,
)


def compose(statement: Sequence[Token], catalogue: Catalogue) -> list[Reading]:
    """Return what the parts of a statement say together: nothing, one thing, or several that all hold."""
    statement = until_reason(statement)
    if any(token.guessed for token in statement):
        return []
    whole = list(_senses(statement, catalogue)) or list(_for_purpose(statement, catalogue))
    if whole or not statement or opens_leading(statement):
        return whole
    if any(token.symbol in {"IF", "UNLESS"} for token in statement):
        return []  # it may belong to all of them
    # Of two orders that an "and" joins each holds by itself.
    found = [reading for piece in _orders(statement) for reading in _senses(piece, catalogue)]
    return [reading for reading in found if reading.kind != "require_output"]  # what is said may depend on the rest


def _for_purpose(statement: Sequence[Token], catalogue: Catalogue) -> Iterator[Reading]:
    """Yield what holds whatever it is for, as it is about a call: "To transfer, first call X, then say ..."."""
    comma = next((number for number, token in enumerate(statement) if token.text == ","), 0)
    purpose = [token for token in statement[1:comma] if token.symbol]
    does = bool(comma) and statement[0].low == "to" and statement[1].low in VERBS
    # "For a hand-over, ...": of a call that is what it is for.
    same = bool(comma) and statement[0].low == "for" and bool(purpose) and all(one.symbol == "TOOL" for one in purpose)
    if not does and not same:
        return
    for one in _senses(statement[comma + 1 :], catalogue):
        held = one.shape == "say_first" and same and set(one.second) <= {token.text for token in purpose}
        if held or (does and (one.shape in _ABOUT_CALL or (one.kind == "order" and one.second))):
            yield one


_ABOUT_CALL: Final = frozenset(("say_after", "say_first"))


def _senses(statement: Sequence[Token], catalogue: Catalogue) -> Iterator[Reading]:
    needed = read_needed(statement)
    parts = parts_of(statement)
    if needed is not None:
        yield needed
    if needed is not None or parts is None:
        return
    # What waits for two things waits for each.
    several = len(parts.others) > 1 and all(one.relation in {"unless", "after"} for one in parts.others)
    pieces = [replace(parts, others=(other,)) for other in parts.others] if several else [parts]
    found = [_sense(one, catalogue) for one in pieces]
    if all(reading is not None for reading in found):
        yield from (reading for reading in found if reading is not None)


def _sense(parts: Parts, catalogue: Catalogue) -> Reading | None:
    return next((reading for sense in _SENSES if (reading := sense(parts, catalogue)) is not None), None)


def _orders(statement: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the orders that "and" or a comma joins, where there are several."""
    cuts = [number for number in range(1, len(statement) - 1) if _begins_order(statement, number)]
    if not cuts:
        return
    for start, end in zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(statement)], strict=True):
        yield statement[start:end]


def _begins_order(statement: Sequence[Token], number: int) -> bool:
    token, following = statement[number], statement[number + 1]
    if token.symbol != "SEP" or token.low not in {"and", ","}:
        return False
    verb = following.low in VERBS and following.low not in BOTH and following.symbol != "BAN"
    return following.low == "will" or verb
