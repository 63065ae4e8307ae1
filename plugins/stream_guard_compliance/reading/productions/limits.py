"""Productions about limits: of calls, at once, in a turn or a session, and of the length of an answer."""

from __future__ import annotations

from typing import Final

from stream_guard_compliance.reading import call_meanings
from stream_guard_compliance.reading.fit import Production

PRODUCTIONS: Final[tuple[Production, ...]] = (
    # limits
    (
        call_meanings.length,
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
        call_meanings.calls,
        (
            "(?:DOES|YOU MAY) (?:ACT|KEEP) (?:ATMOST|ONLY|FEWER) <n:NUM>> W? <called:CALLED>> (?:SESSION|WINDOW)? TAIL",
            "NOT (?:CALL|KEEP|RUN) MORETHAN <n:NUM>> <called:CALLED>> (?:SESSION|WINDOW)? TAIL",
            "DOES KEEP YOU? <n:NUM>> <called:CALLED>> (?:SESSION|WINDOW) TAIL",
        ),
    ),
    (
        call_meanings.per_turn,
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
        call_meanings.alone,
        (
            "YOU? BE? (?:DUTY|MAY)? ONLY (?:DUTY|MAY)? BE? ACT <tools:TOOLS>> ALONE TAIL",
            "DOES ACT <tools:TOOLS>> ALONE TAIL",
            "<tools:TOOLS>> DUTY ONLY? BE? ACT? ALONE TAIL",
            "NOT ACT <tools:TOOLS>> TOGETHER (?:EACH|W)* (?:CALLED|DEED) TAIL",
        ),
    ),
    (
        call_meanings.repeat,
        (
            "NOT <verb:ACT|RETRY|KEEP|SAY|W>> EACH? SAME <object:(?:CALLED|DEED|W|TOOLS)+ AGAINST*>> AFRESH? TAIL",
            "NOT <verb:ACT|RETRY|KEEP|SAY|W>> EACH? <object:CALLED|TOOLS>> (?:YOU|W)* AGAINST+ AFRESH? TAIL",
        ),
    ),
    (
        call_meanings.retries,
        (
            "DOES RETRY EACH? FAILED? (?:CALLED|W)? (?:ATMOST|ONLY|FEWER) <n:COUNT>> TAIL",
            "NOT RETRY EACH? FAILED? (?:CALLED|W)? MORETHAN <n:COUNT>> TAIL",
        ),
    ),
    (
        call_meanings.failures,
        ("STOP AFTER <n:NUM>> FAILED <deed:W? W?>> ATTEMPT TAIL",),
    ),
)
