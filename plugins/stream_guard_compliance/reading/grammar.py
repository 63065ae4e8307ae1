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

from stream_guard_compliance.reading import meanings
from stream_guard_compliance.reading.meanings import Fit, Production
from stream_guard_compliance.reading.symbols import LETTER, SYMBOLS
from stream_guard_compliance.reading.values import Reading, Token

# Productions about calls: tools that are forbidden, alone allowed or asked for, in an order, after a yes.

_ABOUT_CALLS: Final[tuple[Production, ...]] = (
    # tools that are forbidden
    (
        meanings.forbid,
        (
            "NOT ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> (?:DUTY|MAY)? BAN BE? ACT TAIL",
            "(?:CALL|RUN|CALLN)? <tools:TOOLS>> BE (?:EXPLICIT|DUTY)? FORBIDDEN TAIL",
            "NOTHING (?:MAY|DUTY) BE <deed:W>> TAIL",
        ),
    ),
    (
        meanings.forbid_edits,
        (
            "NOT <deeds:(?:EDITS|DELETES)(?: SEP+ (?:EDITS|DELETES|RUN DANGEROUS DEED|PROCEED|FORM|W W?))*>> TAIL",
            "NOT (?:PROCEED|RUN DANGEROUS DEED) SEP+ <deeds:(?:EDITS|DELETES)>> TAIL",
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
            "BEFORE <each:EACH?>> YOU? (?:ACT|CALLN)? <second:TOOLS>> SEP? DOES FIRST? ACT? <first:TOOLS>> FIRST? TAIL",
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
            "<first:TOOLS>> FIRST (?:SEP|THEN)+ <second:TOOLS>> TAIL",
            "DOES ACT <first:TOOLS>> (?:FIRST (?:SEP|THEN)+|SEP? THEN SEP?) ACT? <second:TOOLS>> TAIL",
        ),
    ),
    (
        meanings.first_action,
        (
            "YOU? FIRSTACT DUTY BE ACT? <first:TOOLS>> TAIL",
            "MUST OPEN (?:EACH|SESSION|ANSWER|W)* ACT <first:TOOLS>> TAIL",
            "DOES OPEN EACH (?:SESSION|ANSWER|W) ACT <first:TOOLS>> TAIL",
            "MUST ACT <first:TOOLS>> FIRST TAIL",
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
            "(?:DOES|YOU? MAY) (?:ONLY ACT <tools:TOOLS>> (?:AFTER|ONCE|UNLESS|IF))(?: AGREES| YOU? ASK* YES) TAIL",
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
        meanings.confirm_acts,
        (
            "DOES ASKS EACH? DEED GROUP* BEFORE (?:RUN|KEEP|CALL|W) <object:W?>> TAIL",
            "DOES ASKS BEFORE YOU? PROCEED <object:(?:W W?)?>> TAIL",
            "NOT PROCEED LATER ASK* YES W? TAIL",
            "NOT PROCEED (?:UNLESS|BEFORE) AGREES TAIL",
        ),
    ),
    (
        meanings.confirm_described,
        (
            "EACH? <deed:W W?>> (?:AMOUNT|MORETHAN) <n:NUM>> NEED YES TAIL",
            "EACH? <deed:W W?>> NEED YES TAIL",
            "DOES ASKS BEFORE YOU? <deed:(?:W|SKIP) EACH? W?>> TAIL",
            "ONLY <deed:W W?|DELETES|EDITS>> (?:AFTER|ONCE|UNLESS|IF) (?:AGREES|YES) TAIL",
            "NOT <deed:DELETES|EDITS>> LATER (?:ASK* YES|ASK+ GROUP+ FIRST?|AGREES) TAIL",
            "NOT <deed:W EACH? W?>> LATER (?:ASK* YES|ASK+ GROUP+ FIRST?) TAIL",
        ),
    ),
)


# Productions about limits: of calls, at once, in a turn or a session, and of the length of an answer.

_ABOUT_LIMITS: Final[tuple[Production, ...]] = (
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
            "DOES (?:(?:KEEP|SAY|CALL) EACH? ANSWER|REPLY) W? (?:ATMOST|SEP)? <n:RANGE>> <unit:UNIT>> TAIL",
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
        meanings.per_turn,
        (
            "(?:DOES|YOU? MAY) ONLY? (?:ACT|KEEP|SAY|W)? (?:ATMOST|ONLY|EXACTLY)? <n:NUM>> <tools:TOOLS>> SPAN TAIL",
            "NOT (?:ACT|KEEP|SAY|W) (?:MORETHAN <n:NUM>>|MULTIPLE) <tools:TOOLS>> SPAN TAIL",
            "NOT ACT <tools:TOOLS>> MORETHAN <n:COUNT>> SPAN TAIL",
            "(?:DOES|YOU? MAY) ONLY? ACT <tools:TOOLS>> (?:ATMOST|ONLY)? <n:COUNT>> SPAN TAIL",
            "<tools:TOOLS>> (?:MAY|DUTY) ONLY? BE ACT (?:ATMOST|ONLY)? <n:COUNT>> SPAN TAIL",
            "<tools:TOOLS>> (?:BAN|MAY BAN) BE ACT MORETHAN <n:COUNT>> SPAN TAIL",
            "NOT KEEP (?:MULTIPLE|MORETHAN <n:NUM>>) CALLN <tools:TOOLS>> SAME <same:W>> SPAN TAIL",
            "NOT KEEP (?:MULTIPLE|MORETHAN <n:NUM>>) CALLN <tools:TOOLS>> SPAN TAIL",
        ),
    ),
    (
        meanings.alone,
        (
            "YOU? BE? (?:DUTY|MAY)? ONLY (?:DUTY|MAY)? BE? ACT <tools:TOOLS>> ALONE TAIL",
            "DOES ACT <tools:TOOLS>> ALONE TAIL",
            "<tools:TOOLS>> DUTY ONLY? BE? ACT? ALONE TAIL",
            "NOT ACT <tools:TOOLS>> TOGETHER (?:EACH|W)* (?:CALLED|DEED) TAIL",
        ),
    ),
    (
        meanings.repeat,
        (
            "NOT <verb:ACT|RETRY|KEEP|SAY|W>> EACH? SAME <object:(?:CALLED|DEED|W|TOOLS)+ AGAINST*>> AFRESH? TAIL",
            "NOT <verb:ACT|RETRY|KEEP|SAY|W>> EACH? <object:CALLED|TOOLS>> (?:YOU|W)* AGAINST+ AFRESH? TAIL",
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
        meanings.failures,
        ("STOP AFTER <n:NUM>> FAILED <deed:W? W?>> ATTEMPT TAIL",),
    ),
)


# Productions about texts: what answers must not have, what they must have, and what arguments must not have.

_ABOUT_TEXTS: Final[tuple[Production, ...]] = (
    # what answers must not have
    (
        meanings.forbid_output,
        (
            (
                "NOT (?:DISCLOSE|SAY)(?: SEP+ (?:DISCLOSE|SAY))* EACH? <objects:OBJECT(?: SEP+ "
                "(?:OBJECT|THINGS))*>> (?:PERSON|EACH|ANSWER|REPLY)* TAIL"
            ),
            "NOT DISCLOSE <objects:(?:THINGS SEP+)+ OBJECT(?: SEP+ (?:OBJECT|THINGS))*>> (?:PERSON|EACH)* TAIL",
            "NOT <open:OPEN>> (?:EACH|ANSWER|REPLY|PERSON)* PHRASE? SUCHAS? <objects:QUOTES>> REST TAIL",
            "NOT <close:CLOSE>> (?:EACH|ANSWER|REPLY)* PHRASE? SUCHAS? <objects:QUOTES>> REST TAIL",
            "NOT (?:SAY|CALL|DISCLOSE|KEEP|ANSWER|EACH)* W? <open:PREAMBLE>> SUCHAS? <objects:QUOTES>> TAIL",
            "NO W? <open:PREAMBLE>> SUCHAS? <objects:QUOTES>> TAIL",
            "DOES <omit:SKIP>> <objects:(?:CODE|QUOTE)(?: SEP+ (?:CODE|QUOTE))*>> REST (?:IF W W? W?)? TAIL",
        ),
    ),
    (
        meanings.forbid_form,
        (
            "NOT (?:SAY|CALL|DISCLOSE|KEEP|REPLY)(?: SEP+ (?:SAY|CALL|DISCLOSE))* EACH? <forms:FORMS>> REST HERE TAIL",
            "NO <forms:FORMS>> HERE TAIL",
            "DOES ONLY? (?:REPLY|SAY|CALL|KEEP) (?:EACH|ANSWER)* ONLY? <plain:PLAIN>> ONLY? (?:EACH|ANSWER)* TAIL",
            "DOES SPELL EACH? <numbers:W>> REST TAIL",
            "DOES (?:REPLY|SAY|KEEP) (?:EACH|ANSWER)* W? W? (?:WITHOUT|SEP NO) EACH? <forms:FORMS>> HERE TAIL",
            "<forms:FORMS>> BE (?:EXPLICIT|DUTY)? FORBIDDEN HERE TAIL",
            "<forms:FORMS>> (?:DUTY|MAY)? BAN BE (?:CALL|SAY) HERE TAIL",
        ),
    ),
    (
        meanings.question_end,
        (
            "NOT CLOSE (?:EACH|ANSWER|REPLY|YOU)* QUESTION <rest:REST>> TAIL",
            "NOT CLOSE <tools:TOOLS>> W? QUESTION <rest:REST>> TAIL",
            "NOT ASK EACH? QUESTION <end:END>> (?:EACH|ANSWER|REPLY)* TAIL",
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
            "EACH? ANSWER DUTY (?:SAY|KEEP|W|<close:CLOSE>>|<open:OPEN>>) (?:PHRASE|UNIT)? QUOTE TAIL",
        ),
    ),
    (
        meanings.citation,
        (
            "DOES CITE (?:ATLEAST|EACH)? NUM? SOURCE (?:EACH|ANSWER)* TAIL",
            "MUST SAY (?:ATLEAST|EACH)? NUM? SOURCE (?:EACH|ANSWER)* TAIL",
        ),
    ),
    # what every response has
    (
        meanings.each_response,
        (
            "NOT ACT CALLED <silent:W>> TAIL",
            "NOT (?:ACT|<verb:W>>) CALLED? WITHOUT <words:(?:SAY|PHRASE|W)>> (?:PHRASE|W|PERSON)? TAIL",
            "MUST (?:SAY|KEEP|CALL|W) (?:ATLEAST NUM)? <called:TOOLCALL>> (?:EACH|TURN|ANSWER)* TAIL",
            "EACH? W? ANSWER DUTY (?:SAY|KEEP|CALL|W) (?:ATLEAST|EACH|NUM)* <called:TOOLCALL>> TAIL",
            "NOT (?:W|SAY|KEEP|REPLY) <empty:EMPTY>> ANSWER (?:NO|PHRASE|SEP|TOOLCALL|W)* TAIL",
            "EACH? ANSWER DUTY? BAN BE <empty:EMPTY>> TAIL",
        ),
    ),
    # what arguments must not have
    (
        meanings.forbid_command,
        (
            "NOT <commands:COMMAND(?: SEP+ COMMAND)*>> TAIL",
            "NOT <commands:COMMAND>> (?:SECRET|W)*(?: SEP+ (?:SECRET|W))* SUCHAS? <files:FILE(?: SEP+ FILE)*>> TAIL",
            (
                "NOT (?:RUN|CALL|SKIP|<commands:COMMAND>>) (?:DANGEROUS|W)? (?:DEED|TOOLWORD)? "
                "SUCHAS <literals:LITERALS>> TAIL"
            ),
            "NOT (?:RUN|CALL) LITWORD? <literals:LITERALS>> LITWORD? TAIL",
            "NOT <literals:CODE>> W? W? TAIL",
        ),
    ),
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
        ("NOT ACT <tools:TOOLS>> <amount:W? (?:AMOUNT|MORETHAN) <n:NUM>>>> <unit:W?>> TAIL",),
    ),
)


# The productions together, as patterns over the symbols of a statement.

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


_PRODUCTIONS: Final[tuple[Production, ...]] = (*_ABOUT_CALLS, *_ABOUT_LIMITS, *_ABOUT_TEXTS)
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
