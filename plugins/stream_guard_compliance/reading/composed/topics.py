"""Statements about a tool that stands before them: in a label, in the first cell of a row, before a colon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.clauses import is_imperative
from stream_guard_compliance.reading.composed.given import read_needed
from stream_guard_compliance.reading.composed.reader import compose
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading

_PREDICATES: Final = frozenset(("DUTY", "BAN", "MAY", "NEED", "BE", "ONLY", "FORBIDDEN", "ATMOST"))


_RESTRICTS: Final = frozenset(("UNLESS", "ONLY", "ONCE", "ATMOST", "NUM", "AFTER", "IF", "TIMES"))
_MAY_BE_CALLED: Final = (
    Token("MAY", "may", 0, 0), Token("BE", "be", 0, 0), Token("CALL", "called", 0, 0),
)  # fmt: skip


def topic_of(describes: str, label: str, catalogue: Catalogue) -> Sequence[Token]:
    """Return the tool that a label or a cell names, or nothing."""
    for name in (describes, label.strip("`* ")):
        if name and catalogue.knows(name):
            return [Token("TOOL", catalogue.means(name), 0, 0)]
    return []


def read_about(statement: Sequence[Token], topic: Sequence[Token], catalogue: Catalogue) -> list[Reading]:
    """Return what a statement says of its topic: as its subject, or as what is called when it holds."""
    solid = [token for token in statement if token.symbol]
    tools = [token for token in topic if token.symbol == "TOOL"]
    if not solid or len(tools) != 1 or statement is topic:
        return []
    if solid[0].symbol in _RESTRICTS:  # "only after Y", "once per session": of calling it
        found = compose([*tools, *_MAY_BE_CALLED, *statement], catalogue)
        if found:
            return found
    needed = read_needed([*tools, *statement])
    if needed is not None or any(token.symbol == "TOOL" for token in solid):
        return [needed] if needed is not None else []
    if solid[0].symbol in _PREDICATES:
        found = compose([*topic, *statement], catalogue)
        if found:
            return found
    if is_imperative(solid) or solid[0].symbol in {"ATMOST", "CODE", "ARGNAME"}:
        calling = [Token("IF", "when", 0, 0), Token("CALL", "calling", 0, 0), *tools, Token("SEP", ",", 0, 0)]
        found = compose([*calling, *statement], catalogue)
        return found or [
            _held_to(one, tools[0].text) for one in compose(statement, catalogue) if one.kind == "forbid_arg"
        ]
    return []


def _held_to(reading: Reading, tool: str) -> Reading:
    return replace(reading, first=(tool,))
