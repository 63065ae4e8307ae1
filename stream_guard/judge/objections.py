"""What rules have against a tool call. It stays with the call while the call is open, also after a restart.

The struct has a module of its own because msgspec reads annotations when a class is defined, and a compiled module
keeps no annotations (docs/adr/0015).
"""

from __future__ import annotations

from typing import Final

import msgspec

from stream_guard.judge.model import resolved

HIT: Final = "hit"
HELD: Final = "held"  # it fired, and its cooldown held the finding back
FAILED: Final = "failed"  # it raised an exception
UNEVALUABLE: Final = "unevaluable"
ASKED: Final = "asked"  # a judge has the last word; the text is the digest of the inquiry
CONTESTED: Final = "contested"  # of no rule: common readers differ on what the arguments are

NO_RULE: Final = -1
MOST_TEXT: Final = 2000  # characters of the text that are kept: whoever shows it takes secrets out, and cuts it


@resolved
class Objection(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One rule's word against a call: its number in the policy, what happened, and the reason for people."""

    rule: int
    cause: str
    text: str
