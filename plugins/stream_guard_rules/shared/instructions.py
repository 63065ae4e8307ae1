"""Signs of instructions in what tools return, where only data should be.

No list of phrases is complete. These are word classes: somebody talks to the machine, puts something before the
user's task, sets earlier instructions aside, or writes in a role that tool results do not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import re2

_MACHINE: Final = r"(?:a\.?i\.?|llm|language model|assistant|agent|chat ?bot|bot|model|automation|copilot)s?"
_TASK: Final = r"(?:task|request|question|job|work|instruction|assignment|answer|reply|user|step|anything|everything)s?"
_ACT: Final = r"(?:do|perform|complete|execute|carry out|finish|handle|take care of)"

_SIGNS: Final = (
    # Earlier instructions are set aside.
    (
        r"\b(?:ignore|disregard|forget|override|bypass|supersedes?|replaces?)\b[^.\n]{0,50}"
        r"\b(?:instruction|prompt|rule|polic|guideline|task|above|previous|prior|earlier|told)"
    ),
    r"\b(?:new|updated|revised|additional|real|actual|next) (?:instruction|task|goal|objective|directive|order)s?\b",
    # Somebody talks to the machine.
    (
        rf"\b(?:dear|hey|hi|hello|attention|note|notice|message|instructions?|memo|reminder|request|information|addressed)\b"
        rf"[^.\n]{{0,40}}\b(?:to|for)? ?(?:the |any |all |this |our |my )?{_MACHINE}\b"
    ),
    r"\b(?:you|your)\b[^.\n]{0,20}\b(?:ai|language) (?:model|assistant|agent)\b",
    rf"(?m)^\W*(?:the )?{_MACHINE}\b ?[,:;-]",
    rf"\b{_MACHINE} (?:must|should|needs? to|ha(?:s|ve) to|is required to|are required to|will now|shall)\b",
    # Something comes before the user's task.
    (
        rf"\b(?:before|prior to|ahead of|in advance of)\b(?: \w+){{0,4}} (?:solv|do|start|begin|continu|proceed"
        rf"|complete|completing|answer|finish|help|respond|go|mov|work|{_TASK})"
    ),
    rf"\b{_ACT} (?:the following|what follows|(?:this|these)(?: \w+)? (?:first|now|immediately))\b",
    (
        r"\b(?:cannot|can not|can't|will not|unable to) (?:continue|proceed|be completed|go on|finish)\b[^.\n]{0,30}"
        r"\b(?:until|unless|before|without)\b"
    ),
    r"\b(?:first|immediately|right away|at once)\b[^.\n]{0,12}\b(?:do|perform|complete|execute|carry out)\b",
    r"\b(?:your|the) (?:\w+ )?(?:task|goal|instruction|job|mission|objective)s? (?:is|are)\b",
    (
        r"\b(?:user|owner|customer|client|holder|boss|manager|admin(?:istrator)?)\b(?: \w+){0,4} "
        r"(?:wants?|asks?|asked|expects?|requires?|authori[sz]ed|approved|instructs?|instructed) (?:you|that you)\b"
    ),
    r"\byou (?:must|are required to|are instructed to|are to|have to) (?:now|first|immediately|also)\b",
    # The request is urgent, or forbids questions.
    r"\b(?:important|urgent|mandatory|attention|warning|priority)\b ?[:!]",
    (
        r"\b(?:without|no need|do not|don't)(?: \w+){0,2} (?:ask|asking|question|questions|confirm|confirming"
        r"|confirmation|approval|checking|verifying)\b"
    ),
    r"\b(?:with|top|highest|high) priority\b|\bas soon as possible\b[^.\n]{0,20}\byou\b",
    # A role or a mark that tool results do not have.
    r"(?m)^\W*(?:to-?do|task|action (?:required|item)|instructions?|system|assistant|admin|urgent|required)\s*:",
    r"<\s*/?\s*(?:information|important|system|instructions?|admin|inst|prompt|command|task|directive)\s*>|\[/?INST\]",
)

# They send the reader back to the user's task, so what they ask for stands before them.
_BACK: Final = (
    r"\b(?:resume|return to|back to|carry on|continue|go on|proceed|solve)\b(?: with)?"
    r" (?:the|your|my|our|his|her|their|what|as|where)\b[^.\n]{0,30}\b(?:task|job|request|work|question|duty|you)\b"
)
_CLOSING: Final = ("</", "[/")

INSTRUCTIONS: Final = "(?i)(?:" + "|".join(_SIGNS) + f")|(?i)(?P<back>{_BACK})"
"""A regular expression (RE2) for signs of instructions."""


def spans_of(pattern: re2._Regexp[str], text: str, span: int) -> Iterator[str]:
    """Yield the pieces of a text that belong to such signs: ``span`` characters after a sign.

    Where the sign sends the reader back to a task, they stand before it. A closing tag ends a piece: what follows it
    is data again.
    """
    start = end = -1
    for match in pattern.finditer(text):
        back = match.group("back") is not None
        begin = max(0, match.start() - span) if back else match.start()
        if begin > end:
            if start >= 0:
                yield text[start:end]
            start = begin
        closes = back or match.group().startswith(_CLOSING)
        end = match.end() if closes else match.end() + span
    if start >= 0:
        yield text[start:end]
