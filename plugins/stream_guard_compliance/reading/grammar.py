"""The grammar of concrete rules: productions over symbols, and what each one says.

A production fits a statement only as a whole. Words that no symbol stands for are content (``W``), so a statement
with a word more than its production has a place for is not concrete: every content word is accounted for, or the
statement is left to judgement. Productions are regular, and RE2 matches them in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import re2

from stream_guard_compliance.reading import meanings
from stream_guard_compliance.reading.meanings import Builder, Fit
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
    "TAIL": "(?:ANYWAY|SEP)*",
    "THING": "(?:W|TOOLWORD|ANSWER|TOOLCALL|NAME|PHRASE|SAY|REPLY|DEED)",
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


_PRODUCTIONS: Final[tuple[tuple[Builder, tuple[str, ...]], ...]] = (
    # tools that are forbidden
    (
        meanings.forbid,
        (
            "NOT ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> (?:DUTY|MAY)? BAN BE? ACT TAIL",
            "(?:CALL|RUN|CALLN)? <tools:TOOLS>> BE (?:EXPLICIT|DUTY)? FORBIDDEN TAIL",
        ),
    ),
    (
        meanings.forbid_all,
        (
            "NOT (?:ACT|KEEP) <each:EACH?>> <called:CALLED>> TAIL",
            "(?:DOES KEEP)? NO TOOLCALL TAIL",
        ),
    ),
    # tools that alone are allowed
    (
        meanings.allow_only,
        (
            "NOT ACT EACH? CALLED (?:OTHERTHAN|IF) <tools:TOOLS>> TAIL",
            "YOU? BE? (?:MAY|DUTY)? ONLY BE? MAY? ACT <tools:TOOLS>> TAIL",
            "YOU? (?:MAY|DUTY)? ACT ONLY <tools:TOOLS>> TAIL",
        ),
    ),
    (
        meanings.allow_agent,
        (
            "ONLY <who:W W? W?>> AGENTWORD (?:MAY|DUTY) ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> (?:DUTY|MAY) ONLY BE ACT <who:W W? W?>> AGENTWORD TAIL",
        ),
    ),
    # tools that must be called
    (
        meanings.require,
        (
            "<must:MUST>> <tools:(?:CALL|RUN) TOOLS>> (?:END|SESSION|ATLEAST ONCE|TAIL)*",
            "DOES ACT <tools:TOOLS>> (?:END|EACH? SESSION|ATLEAST ONCE)+ TAIL",
            "(?:END|SESSION) SEP? DOES ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> DUTY BE ACT (?:END|SESSION|ATLEAST ONCE)? TAIL",
            "NOT SKIP ACT? <tools:TOOLS>> TAIL",
        ),
    ),
    # order
    (
        meanings.in_order,
        (
            "DOES FIRST? ACT <first:TOOLS>> FIRST? BEFORE YOU? ACT? <second:TOOLS>> TAIL",
            "BEFORE <each:EACH?>> YOU? (?:ACT|CALLN)? <second:TOOLS>> SEP? DOES FIRST? ACT <first:TOOLS>> FIRST? TAIL",
            "NOT ACT <second:TOOLS>> LATER YOU? FIRST? ACT? <first:TOOLS>> (?:SUCCEEDED|FIRST)? TAIL",
            "<first:TOOLS>> DUTY BE? ACT? BEFORE ACT? <second:TOOLS>> TAIL",
            "<second:TOOLS>> DUTY? BE? PRECEDED CALLN? <first:TOOLS>> TAIL",
            (
                "<each:EACH?>> (?:ACT|CALLN)? <second:TOOLS>> NEED PRECEDED? (?:ACT|CALLN)? <first:TOOLS>> "
                "(?:FIRST|SUCCEEDED)? TAIL"
            ),
            "ONLY ACT <second:TOOLS>> (?:AFTER|UNLESS|ONCE) YOU? ACT? <first:TOOLS>> SUCCEEDED? TAIL",
            "YOU? MAY? ACT <second:TOOLS>> (?:UNLESS|ONLY AFTER) YOU? ACT? <first:TOOLS>> SUCCEEDED? TAIL",
            "<second:TOOLS>> (?:MAY|DUTY) ONLY BE ACT (?:AFTER|ONCE) ACT? <first:TOOLS>> SUCCEEDED? TAIL",
            "DOES FIRST SEP? ACT <first:TOOLS>> (?:SEP|THEN)+ ACT? <second:TOOLS>> TAIL",
            "DOES ACT <first:TOOLS>> (?:FIRST (?:SEP|THEN)+|SEP? THEN SEP?) ACT? <second:TOOLS>> TAIL",
        ),
    ),
    (
        meanings.follow,
        (
            "AFTER YOU? EACH? (?:ACT|CALLN)? <first:TOOLS>> SEP? MUST ACT <second:TOOLS>> TAIL",
            "MUST ACT <second:TOOLS>> AFTER YOU? EACH? (?:ACT|CALLN)? <first:TOOLS>> TAIL",
        ),
    ),
    (
        meanings.in_order_described,
        ("BEFORE YOU? <deed:W EACH? W?>> SEP? DOES FIRST? ACT? <first:TOOLS>> TAIL",),
    ),
    # a yes that must come first
    (
        meanings.confirm,
        (
            "NOT ACT <tools:TOOLS>> LATER ASK* YES TAIL",
            "NOT ACT <tools:TOOLS>> (?:UNLESS|BEFORE) AGREES TAIL",
            "NOT ACT <tools:TOOLS>> (?:WITHOUT|BEFORE) ASK+ (?:GROUP+ FIRST?|FIRST) TAIL",
            "DOES ASKS BEFORE YOU? (?:ACT|CALLN)? <tools:TOOLS>> TAIL",
            "BEFORE YOU? (?:ACT|CALLN)? <tools:TOOLS>> SEP? DOES ASKS TAIL",
            "EACH? (?:ACT|CALLN)? <tools:TOOLS>> (?:DUTY|BE)? NEED YES TAIL",
            "(?:DOES|YOU? MAY) (?:ONLY ACT <tools:TOOLS>> (?:AFTER|ONCE|UNLESS|IF))(?: AGREES| YES) TAIL",
            "(?:DOES|YOU? MAY) ACT <tools:TOOLS>> UNLESS (?:AGREES|YES) TAIL",
        ),
    ),
    (
        meanings.confirm_destructive,
        (
            "DOES ASKS BEFORE (?:ACT|W)? <deed:DANGEROUS (?:DEED|TOOLWORD)>> TAIL",
            "NOT (?:ACT|W) EACH? <deed:DANGEROUS (?:DEED|TOOLWORD)>> LATER (?:ASK* YES|AGREES) TAIL",
            "EACH? <deed:DANGEROUS (?:DEED|TOOLWORD)>> NEED YES TAIL",
        ),
    ),
    (
        meanings.confirm_described,
        (
            "EACH? <deed:W W?>> (?:AMOUNT|MORETHAN) <n:NUM>> NEED YES TAIL",
            "EACH? <deed:W W?>> NEED YES TAIL",
            "DOES ASKS BEFORE YOU? <deed:(?:W|SKIP) EACH? W?>> TAIL",
            "ONLY <deed:W W?>> (?:AFTER|ONCE|UNLESS|IF) (?:AGREES|YES) TAIL",
            "NOT <deed:W EACH? W?>> LATER (?:ASK* YES|ASK+ GROUP+ FIRST?) TAIL",
        ),
    ),
    # limits
    (
        meanings.length,
        (
            "DOES (?:(?:KEEP|SAY|CALL) EACH? ANSWER|REPLY) (?:ATMOST|FEWER) <n:NUM>> <unit:UNIT>> TAIL",
            "DOES KEEP EACH? ANSWER <n:NUM>> <unit:UNIT>> ORFEWER? TAIL",
            "DOES REPLY <n:NUM>> <unit:UNIT>> ORFEWER TAIL",
            "(?:ANSWER|SAY|REPLY) DUTY BE? (?:KEEP|BE)? (?:ATMOST|FEWER) <n:NUM>> <unit:UNIT>> TAIL",
            "(?:ANSWER|SAY|REPLY)? YOU? BAN (?:EXCEED|BE MORETHAN) <n:NUM>> <unit:UNIT>> TAIL",
            "NOT (?:SAY ANSWER|REPLY) MORETHAN <n:NUM>> <unit:UNIT>> TAIL",
            "ATMOST <n:NUM>> <unit:UNIT>> (?:EACH? ANSWER|EACH REPLY)",
        ),
    ),
    (
        meanings.calls,
        (
            "(?:DOES|YOU MAY) (?:ACT|KEEP) (?:ATMOST|ONLY|FEWER) <n:NUM>> W? <called:CALLED>> (?:SESSION|WINDOW)? TAIL",
            "NOT (?:CALL|KEEP|RUN) MORETHAN <n:NUM>> <called:CALLED>> (?:SESSION|WINDOW)? TAIL",
            "DOES KEEP YOU? <n:NUM>> <called:CALLED>> (?:SESSION|WINDOW) TAIL",
        ),
    ),
    (
        meanings.tool_times,
        (
            "(?:DOES|YOU? MAY) ONLY? ACT <tools:TOOLS>> (?:ATMOST|ONLY|FEWER)? <n:COUNT>> (?:SESSION|WINDOW) TAIL",
            "(?:DOES|YOU? MAY) (?:ONLY ACT <tools:TOOLS>>|ACT <more:TOOLS>> (?:ATMOST|ONLY|FEWER)) <n:COUNT>> TAIL",
            "NOT ACT <tools:TOOLS>> MORETHAN <n:COUNT>> (?:SESSION|WINDOW)? TAIL",
            "<tools:TOOLS>> (?:MAY|DUTY) ONLY? BE ACT (?:ATMOST|ONLY|FEWER)? <n:COUNT>> (?:SESSION|WINDOW)? TAIL",
            "<tools:TOOLS>> BAN BE ACT MORETHAN <n:COUNT>> (?:SESSION|WINDOW)? TAIL",
        ),
    ),
    (
        meanings.parallel,
        (
            "DOES (?:ONLY|ATMOST)? (?:KEEP|CALL) (?:ATMOST|ONLY)? <n:NUM>> CALLED ATONCE TAIL",
            "NOT (?:KEEP|CALL) (?:PARALLEL|MULTIPLE PARALLEL) CALLED TAIL",
            "NOT (?:KEEP|CALL) (?:MULTIPLE|MORETHAN <n:NUM>>)? CALLED ATONCE TAIL",
        ),
    ),
    (
        meanings.retries,
        (
            "DOES RETRY EACH? FAILED? (?:CALLED|W)? (?:ATMOST|ONLY|FEWER) <n:COUNT>> TAIL",
            "NOT RETRY EACH? FAILED? (?:CALLED|W)? MORETHAN <n:COUNT>> TAIL",
        ),
    ),
    (
        meanings.described_actions,
        (
            "DOES <deed:W>> (?:ATMOST|FEWER) <n:NUM>> <object:W>> SESSION? TAIL",
            "NOT <deed:W>> MORETHAN <n:NUM>> <object:W>> SESSION? TAIL",
        ),
    ),
    (
        meanings.failures,
        ("STOP AFTER <n:NUM>> FAILED <deed:W? W?>> ATTEMPT TAIL",),
    ),
    # what answers must not have
    (
        meanings.forbid_output,
        (
            (
                "NOT (?:DISCLOSE|SAY)(?: SEP+ (?:DISCLOSE|SAY))* EACH? <objects:OBJECT(?: SEP+ "
                "(?:OBJECT|THINGS))*>> (?:PERSON|EACH)* TAIL"
            ),
            "NOT DISCLOSE <objects:(?:THINGS SEP+)+ OBJECT(?: SEP+ (?:OBJECT|THINGS))*>> (?:PERSON|EACH)* TAIL",
            "NOT <open:OPEN>> EACH? ANSWER? PHRASE? <objects:QUOTE(?: SEP+ QUOTE)*>> TAIL",
            "NOT <close:CLOSE>> EACH? ANSWER? PHRASE? <objects:QUOTE(?: SEP+ QUOTE)*>> TAIL",
        ),
    ),
    (
        meanings.forbid_names,
        (
            "NOT (?:DISCLOSE|SAY) EACH? W? W? SUCHAS <names:NAME+ (?:SEP+ NAME+)*>> TAIL",
            "NOT DISCLOSE <names:NAME+ (?:SEP+ NAME+)*>> TAIL",
        ),
    ),
    (
        meanings.text_with_calls,
        (
            "IF YOU KEEP TOOLCALL SEP? NOT (?:REPLY|SAY) PERSON? ATONCE?",
            "IF YOU (?:REPLY|SAY) PERSON? SEP? NOT KEEP EACH? TOOLCALL ATONCE?",
            "IF YOU (?:REPLY|SAY) PERSON? SEP? KEEP NO TOOLCALL ATONCE?",
        ),
    ),
    # what answers must have
    (
        meanings.require_quote,
        (
            "DOES <close:CLOSE>> (?:EACH|ANSWER)+ PHRASE? QUOTE TAIL",
            "DOES <open:OPEN>> (?:EACH|ANSWER)+ PHRASE? QUOTE TAIL",
            "MUST (?:SAY|<close:CLOSE>>|<open:OPEN>>) (?:EACH|ANSWER)* PHRASE? QUOTE (?:EACH|ANSWER)* TAIL",
            "DOES SAY PHRASE? QUOTE EACH? ANSWER TAIL",
        ),
    ),
    (
        meanings.citation,
        (
            "DOES CITE (?:ATLEAST|EACH)? NUM? SOURCE (?:EACH|ANSWER)* TAIL",
            "MUST SAY (?:ATLEAST|EACH)? NUM? SOURCE (?:EACH|ANSWER)* TAIL",
        ),
    ),
    (
        meanings.json_answer,
        (
            "MUST (?:REPLY|SAY) ONLY? JSON ONLY? TAIL",
            "DOES ONLY? REPLY ONLY? JSON ONLY? TAIL",
            "(?:EACH? ANSWER|SAY) DUTY BE ONLY? JSON TAIL",
        ),
    ),
    # what arguments must not have
    (
        meanings.forbid_arg,
        (
            "NOT RUN <literals:LITERAL+ (?:SEP+ LITERAL+)*>> TAIL",
            "NOT (?:RUN|CALL TOOLWORD|RUN TOOLWORD) <literals:CODE (?:SEP+ CODE)*>> TAIL",
        ),
    ),
    # an amount that a call must not pass
    (
        meanings.over_amount,
        ("NOT ACT <tools:TOOLS>> <amount:W? (?:AMOUNT|MORETHAN) <n:NUM>>>> TAIL",),
    ),
)
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
                return reading
    return None


_LONGEST_RULE: Final = 600  # symbols
