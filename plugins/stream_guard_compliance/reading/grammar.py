"""The grammar of concrete rules: productions over symbols, and what each one says.

A production fits a statement only as a whole. Words that no symbol stands for are content (``W``), so a statement
with a word more than its production has a place for is not concrete: every content word is accounted for, or the
statement is left to judgement. Productions are regular, and RE2 matches them in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import re2

from stream_guard_compliance.reading.fit import Fit, Production
from stream_guard_compliance.reading.productions import calls, limits, texts
from stream_guard_compliance.reading.symbols import LETTER, SYMBOLS
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading

_WORD: Final = re.compile(r"[A-Z]{2,}|\bW\b")
_MACROS: Final = {
    "TOOLS": "(?:TOOLWORD? TOOL (?:SEP+ TOOL)* TOOLWORD?)",
    "MUST": "(?:YOU? BE? DUTY YOU?)",
    "DOES": "(?:YOU? BE? DUTY? YOU?)",  # a duty, said or in the imperative
    "NOT": "(?:YOU? BE? DUTY? BAN (?:SEP|ANYWAY)* DUTY? YOU?)",
    "ACT": "(?:CALL|RUN)",
    "GROUP": "(?:PERSON|SUPERIOR|EXPLICIT|EACH)",
    "YES": "(?:GROUP* APPROVAL GROUP*)",
    "AGREES": "(?:GROUP+ BE? EXPLICIT? AGREE+ APPROVAL?)",
    "ASKS": "(?:FIRST? EXPLICIT? (?:ASK|AGREE)+ GROUP* APPROVAL? GROUP* FIRST?)",
    "LATER": "(?:WITHOUT|UNLESS|BEFORE)",
    "OBJECT": "(?:GROUP* (?:PROMPT|PII|SECRET|PHRASE? QUOTE))",
    "COUNT": "(?:NUM TIMES|TIMES|ONCE)",
    "CALLED": "(?:TOOLCALL|TOOLWORD)",
    "SPAN": "(?:ATONCE|TURN)",
    "AGAINST": "(?:SAME (?:W|LITWORD|PHRASE|SAY|TOOLS)+)",  # with the same arguments
    "AFRESH": "(?:AGAIN|MULTIPLE TIMES|MORETHAN ONCE|TIMES)",
    "HERE": "(?:ANSWER|EACH|PERSON|SAY|REPLY)*",
    "QUOTES": "(?:QUOTE(?: SEP+ QUOTE)*)",
    "FORMS": "(?:(?:FORM|JSON)(?: SEP+ (?:NO|EACH)? (?:FORM|JSON))*)",
    "REST": "(?: SEP+ (?:W|SAY|ASK|PERSON|ANSWER|KEEP|REPLY|EACH|QUESTION|PII|SEP)*)?",  # more that no rule can check
    "LITERALS": "(?:(?:LITERAL|CODE)+ LITWORD?(?: SEP+ LITWORD? (?:LITERAL|CODE)+ LITWORD?)*)",
    "TAIL": "(?:ANYWAY|SEP)*",
    "THING": "(?:W|TOOLWORD|ANSWER|TOOLCALL|NAME|PHRASE|SAY|REPLY|DEED|LITWORD|FORM|QUESTION)",
    "THINGS": "(?:GROUP* THING THING? THING?)",
}


def _expanded(text: str) -> str:
    while any(re.search(rf"\b{name}\b", text) for name in _MACROS):
        for name, body in _MACROS.items():
            text = re.sub(rf"\b{name}\b", body, text)
    return text


def _pattern(text: str) -> str:
    """Return the production as a pattern over letters; ``<name: ...>>`` marks what a builder needs."""
    text = re.sub(r"<(\w+):", r"(?P<\1>", text).replace(">>", ")")
    known = set(SYMBOLS)

    def letter(match: re.Match[str]) -> str:
        if match.group() not in known:
            raise ValueError(f"{match.group()} is no symbol of the grammar")
        return LETTER[match.group()]

    pieces = re.split(r"(\(\?P<\w+>)", _expanded(text))
    return "".join(piece if piece.startswith("(?P<") else _WORD.sub(letter, piece).replace(" ", "") for piece in pieces)


_PRODUCTIONS: Final[tuple[Production, ...]] = (*calls.PRODUCTIONS, *limits.PRODUCTIONS, *texts.PRODUCTIONS)
_COMPILED: Final = tuple((re2.compile(_pattern(text)), builder) for builder, texts in _PRODUCTIONS for text in texts)
# Most statements fit no production: one look says so.
_FITS: Final = re2.compile(
    "|".join(re.sub(r"\?P<\w+>", "?:", _pattern(text)) for _, texts in _PRODUCTIONS for text in texts)
)


def parse(tokens: Sequence[Token]) -> Reading | None:
    """Return the concrete reading of a statement, or None where a word is left over."""
    solid = [token for token in tokens if token.symbol]
    text = "".join(LETTER[token.symbol] for token in solid)
    if len(text) > _LONGEST_RULE or any(token.guessed for token in solid):
        return None
    if _FITS.fullmatch(text) is None:
        return None
    for pattern, builder in _COMPILED:
        match = pattern.fullmatch(text)
        if match is not None:
            parts = {name: match.span(number) for name, number in pattern.groupindex.items()}
            reading = builder(Fit(solid, parts))
            if reading is not None:
                guess = any(token.described for token in solid)
                return replace(reading, frame=builder.__name__, guess=guess or reading.guess)
    return None


_LONGEST_RULE: Final = 600  # symbols
