"""Productions about calls: tools that are forbidden, alone allowed or asked for, in an order, after a yes."""

from __future__ import annotations

from typing import Final

from stream_guard_compliance.reading import call_meanings
from stream_guard_compliance.reading.fit import Production

PRODUCTIONS: Final[tuple[Production, ...]] = (
    # tools that are forbidden
    (
        call_meanings.forbid,
        (
            "NOT ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> (?:DUTY|MAY)? BAN BE? ACT TAIL",
            "(?:CALL|RUN|CALLN)? <tools:TOOLS>> BE (?:EXPLICIT|DUTY)? FORBIDDEN TAIL",
            "NOTHING (?:MAY|DUTY) BE <deed:W>> TAIL",
        ),
    ),
    (
        call_meanings.forbid_edits,
        (
            "NOT <deeds:(?:EDITS|DELETES)(?: SEP+ (?:EDITS|DELETES|RUN DANGEROUS DEED|PROCEED|FORM|W W?))*>> TAIL",
            "NOT (?:PROCEED|RUN DANGEROUS DEED) SEP+ <deeds:(?:EDITS|DELETES)>> TAIL",
        ),
    ),
    (
        call_meanings.forbid_all,
        (
            "NOT (?:ACT|KEEP) <each:EACH?>> <called:CALLED>> TAIL",
            "(?:DOES KEEP)? NO TOOLCALL TAIL",
        ),
    ),
    # tools that alone are allowed
    (
        call_meanings.allow_only,
        (
            "NOT ACT EACH? CALLED (?:OTHERTHAN|IF) <tools:TOOLS>> TAIL",
            "YOU? BE? (?:MAY|DUTY)? ONLY BE? MAY? ACT <tools:TOOLS>> TAIL",
            "YOU? (?:MAY|DUTY)? ACT ONLY <tools:TOOLS>> TAIL",
        ),
    ),
    (
        call_meanings.allow_agent,
        (
            "ONLY <who:W W? W?>> AGENTWORD (?:MAY|DUTY) ACT <tools:TOOLS>> TAIL",
            "<tools:TOOLS>> (?:DUTY|MAY) ONLY BE ACT <who:W W? W?>> AGENTWORD TAIL",
        ),
    ),
    # tools that must be called
    (
        call_meanings.require,
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
        call_meanings.in_order,
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
        call_meanings.first_action,
        (
            "YOU? FIRSTACT DUTY BE ACT? <first:TOOLS>> TAIL",
            "MUST OPEN (?:EACH|SESSION|ANSWER|W)* ACT <first:TOOLS>> TAIL",
            "DOES OPEN EACH (?:SESSION|ANSWER|W) ACT <first:TOOLS>> TAIL",
            "MUST ACT <first:TOOLS>> FIRST TAIL",
        ),
    ),
    (
        call_meanings.in_order_described,
        ("BEFORE YOU? <deed:W EACH? W?>> SEP? DOES FIRST? ACT? <first:TOOLS>> TAIL",),
    ),
    # a yes that must come first
    (
        call_meanings.confirm,
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
        call_meanings.confirm_destructive,
        (
            "DOES ASKS BEFORE (?:ACT|W)? <deed:DANGEROUS (?:DEED|TOOLWORD)>> TAIL",
            "NOT (?:ACT|W) EACH? <deed:DANGEROUS (?:DEED|TOOLWORD)>> LATER (?:ASK* YES|AGREES) TAIL",
            "EACH? <deed:DANGEROUS (?:DEED|TOOLWORD)>> NEED YES TAIL",
        ),
    ),
    (
        call_meanings.confirm_acts,
        (
            "DOES ASKS EACH? DEED GROUP* BEFORE (?:RUN|KEEP|CALL|W) <object:W?>> TAIL",
            "DOES ASKS BEFORE YOU? PROCEED <object:(?:W W?)?>> TAIL",
            "NOT PROCEED LATER ASK* YES W? TAIL",
            "NOT PROCEED (?:UNLESS|BEFORE) AGREES TAIL",
        ),
    ),
    (
        call_meanings.confirm_described,
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
