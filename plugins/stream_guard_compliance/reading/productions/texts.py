"""Productions about texts: what answers must not have, what they must have, and what arguments must not have."""

from __future__ import annotations

from typing import Final

from stream_guard_compliance.reading import call_meanings, text_meanings
from stream_guard_compliance.reading.fit import Production

PRODUCTIONS: Final[tuple[Production, ...]] = (
    # what answers must not have
    (
        text_meanings.forbid_output,
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
        text_meanings.forbid_form,
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
        text_meanings.question_end,
        (
            "NOT CLOSE (?:EACH|ANSWER|REPLY|YOU)* QUESTION <rest:REST>> TAIL",
            "NOT CLOSE <tools:TOOLS>> W? QUESTION <rest:REST>> TAIL",
            "NOT ASK EACH? QUESTION <end:END>> (?:EACH|ANSWER|REPLY)* TAIL",
        ),
    ),
    # what answers must have
    (
        text_meanings.require_quote,
        (
            "DOES <close:CLOSE>> (?:EACH|ANSWER)+ PHRASE? QUOTE TAIL",
            "DOES <open:OPEN>> (?:EACH|ANSWER)+ PHRASE? QUOTE TAIL",
            "MUST (?:SAY|<close:CLOSE>>|<open:OPEN>>) (?:EACH|ANSWER)* PHRASE? QUOTE (?:EACH|ANSWER)* TAIL",
            "DOES SAY PHRASE? QUOTE EACH? ANSWER TAIL",
            "EACH? ANSWER DUTY (?:SAY|KEEP|W|<close:CLOSE>>|<open:OPEN>>) (?:PHRASE|UNIT)? QUOTE TAIL",
        ),
    ),
    (
        text_meanings.citation,
        (
            "DOES CITE (?:ATLEAST|EACH)? NUM? SOURCE (?:EACH|ANSWER)* TAIL",
            "MUST SAY (?:ATLEAST|EACH)? NUM? SOURCE (?:EACH|ANSWER)* TAIL",
        ),
    ),
    # what every response has
    (
        text_meanings.each_response,
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
        text_meanings.forbid_command,
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
        text_meanings.forbid_arg,
        (
            "NOT RUN <literals:LITERAL+ (?:SEP+ LITERAL+)*>> TAIL",
            "NOT (?:RUN|CALL TOOLWORD|RUN TOOLWORD) <literals:CODE (?:SEP+ CODE)*>> TAIL",
        ),
    ),
    # an amount that a call must not pass
    (
        call_meanings.over_amount,
        ("NOT ACT <tools:TOOLS>> <amount:W? (?:AMOUNT|MORETHAN) <n:NUM>>>> <unit:W?>> TAIL",),
    ),
)
