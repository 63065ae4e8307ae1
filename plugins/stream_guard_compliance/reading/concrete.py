"""A statement as a concrete reading: as it stands, without its purpose, unless somebody asks, or in a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.circumstances import split_case
from stream_guard_compliance.reading.composed.reader import compose
from stream_guard_compliance.reading.exemptions import split_request, turned_request, words_of_deed
from stream_guard_compliance.reading.grammar import parse
from stream_guard_compliance.reading.statements import bare, without_purposes
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Kind, Reading
from stream_guard_compliance.reading.voices import activated

# What these ask for holds whatever it is for; a ban holds for its purpose only.
_WHATEVER_FOR: Final = frozenset(("order", "confirm_before", "limit", "require_output"))
_FORBIDS: Final = frozenset(("forbid_tool", "forbid_arg", "forbid_output"))


def read_concrete(statement: Sequence[Token], catalogue: Catalogue) -> list[Reading]:
    """Return what a statement says, where a rule can check all of it, or enough to be broken by nothing else."""
    found = _as_it_stands(statement, catalogue)
    ordered = activated(statement) if not found else None
    return _as_it_stands(ordered, catalogue) if ordered is not None else found


def _as_it_stands(statement: Sequence[Token], catalogue: Catalogue) -> list[Reading]:
    found = _plain(statement) or _unless_asked(statement, catalogue) or _in_case(statement, catalogue)
    return [found] if found is not None else compose(statement, catalogue)


def _plain(statement: Sequence[Token]) -> Reading | None:
    reading = _parsed(statement)
    if reading is not None:
        return reading
    reading = parse(without_purposes(statement))
    if reading is None or reading.kind not in _WHATEVER_FOR:
        return None
    # "Use A to do something before B" says with what; "you must use A before B" says that.
    uses = any(token.symbol == "CALL" and token.low.startswith("us") for token in statement)
    must = any(token.symbol in {"DUTY", "BAN", "ONLY"} for token in statement)
    return reading if must or not uses else None


def _parsed(statement: Sequence[Token]) -> Reading | None:
    return parse(bare(statement)) or parse(bare(statement, lists=True))


def _unless_asked(statement: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    head, named = split_request(turned_request(statement))
    inner = _parsed(head) or _composed(head, catalogue) if named is not None else None
    if inner is None or named is None or inner.kind not in {*_FORBIDS, "limit"}:
        return None
    words = (*named, *words_of_deed(head)) if inner.kind in _FORBIDS else named
    kind: Kind = "confirm_before" if inner.kind in _FORBIDS else "conditional"
    return Reading(kind, inner.items, inner=inner, asked=True, words=words, frame=inner.frame)


def _in_case(statement: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    case, rest = split_case(statement)
    if case is None:
        return None
    rest = [token for token in rest if token.low not in _AT_ONCE]
    inner = _plain(rest) or _plain([Token("DUTY", "must", 0, 0), *rest])  # in a case, "call X" is meant as a must
    inner = inner or _composed(rest, catalogue)
    if inner is None:
        return None
    if inner.kind not in _FORBIDS and (inner.kind != "require_tool" or case.sort == "called"):
        return None
    return Reading("conditional", inner.items, inner=inner, case=case, frame=inner.frame)


_AT_ONCE: Final = frozenset(
    ("immediately", "instead", "straightaway", "promptly", "at once", "right", "away", "directly")
)


def _composed(statement: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    found = compose(statement, catalogue)
    return found[0] if len(found) == 1 else None
