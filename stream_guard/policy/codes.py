"""The codes of policy problems. They are promised: a code keeps its meaning (docs/policy-errors.md)."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """What sort of problem it is."""

    UNREADABLE = "SG101"
    SYNTAX = "SG102"
    TWICE = "SG103"
    UNKNOWN_KEY = "SG104"
    MISSING_KEY = "SG105"
    WRONG_TYPE = "SG106"
    NOT_ALLOWED = "SG107"
    UNKNOWN_KIND = "SG108"
    DUPLICATE_ID = "SG109"
    BAD_ID = "SG110"
    CONDITION = "SG111"
    DEAD_PATH = "SG112"
    NEVER_FIRES = "SG113"
    REGEX = "SG114"
    TOOLS = "SG115"
    DURATION = "SG116"
    KEY = "SG117"
    NOT_A_POLICY = "SG118"
    NOT_PLAIN = "SG119"
    TOO_BIG = "SG120"
    ALIAS = "SG121"
    REFUSED = "SG122"
    KIND_FAILED = "SG123"
    AGENT = "SG124"
    TEST = "SG125"
    PACK = "SG126"
    NO_ID = "SG151"
    NO_RULES = "SG152"
    NOT_LISTED = "SG153"
    SAME = "SG154"
    CONTRADICTION = "SG155"
    COVERED = "SG156"
    CONSTANT = "SG157"
    DEAD = "SG158"
