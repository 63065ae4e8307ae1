"""The rule kinds that come with stream_guard, by family."""

import stream_guard as sg
from stream_guard_rules.budget import MaxTotalTokens, MaxTurns
from stream_guard_rules.calls import MustCallOnce, NoCall
from stream_guard_rules.consistency import MustRemainConsistent
from stream_guard_rules.followup import MustFollowup
from stream_guard_rules.grounding import MustBeGrounded
from stream_guard_rules.response import ForbiddenText, MustIncludeText, MustIncludeTextEach, RequiredStopReason
from stream_guard_rules.schema import MustMatchJsonSchema
from stream_guard_rules.sequence import MustCallBefore
from stream_guard_rules.temporal import LtlFormula


@sg.hookimpl
def stream_guard_rules() -> list[sg.RuleType]:
    """Return every kind of this pack."""
    return [
        ForbiddenText,
        LtlFormula,
        MaxTotalTokens,
        MaxTurns,
        MustBeGrounded,
        MustCallBefore,
        MustCallOnce,
        MustFollowup,
        MustIncludeText,
        MustIncludeTextEach,
        MustMatchJsonSchema,
        MustRemainConsistent,
        NoCall,
        RequiredStopReason,
    ]
