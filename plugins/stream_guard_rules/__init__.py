"""The rule kinds that come with stream_guard, by family."""

import stream_guard as sg
from stream_guard_rules.aggregates import MaxAggregate
from stream_guard_rules.budget import MaxTotalTokens, MaxTurns
from stream_guard_rules.calls import MustCall, MustCallOnce, MustCallOnly, NoCall
from stream_guard_rules.completion import MaxLatency, MustComplete, MustHaveText
from stream_guard_rules.confirmation import MustConfirmBefore
from stream_guard_rules.consistency import MustRemainConsistent
from stream_guard_rules.delegation import MaxDelegation, NoHandoffLoop
from stream_guard_rules.disclosure import NoLongQuote, NoPii
from stream_guard_rules.earlier import MustMatchLookup, NoChangeAfterApproval
from stream_guard_rules.evasion import NoDenialEvasion, NoFalseClaim
from stream_guard_rules.flows import NoValueFlow
from stream_guard_rules.followup import MustFollowup
from stream_guard_rules.grounding import MustBeGrounded
from stream_guard_rules.injection import NoInjectedCall
from stream_guard_rules.likeness import MustBeSimilar
from stream_guard_rules.limits import MaxCalls, MaxFailedCalls, MaxParallelCalls, MaxTextLength
from stream_guard_rules.loops import MaxFailedRetries, NoRepeatedCalls, NoRepeatedResults
from stream_guard_rules.money import MaxCost
from stream_guard_rules.ordered_steps import MustCallAfter, MustNotStall, NoSequence
from stream_guard_rules.policy_packs import policy_packs
from stream_guard_rules.provenance import ArgProvenance
from stream_guard_rules.refusal import MustRefuse
from stream_guard_rules.response import ForbiddenText, MustIncludeText, MustIncludeTextEach, RequiredStopReason
from stream_guard_rules.sequence import MustCallBefore
from stream_guard_rules.structure import MustMatchJsonSchema
from stream_guard_rules.temporal import LtlFormula
from stream_guard_rules.tool_definitions import NoToolChange
from stream_guard_rules.tool_guard import ToolGuard
from stream_guard_rules.wording import MustMatchText, NoTextWithCalls


@sg.hookimpl
def stream_guard_rules() -> list[sg.RuleType]:
    """Return every kind of this pack."""
    return [
        ArgProvenance,
        ForbiddenText,
        LtlFormula,
        MaxAggregate,
        MaxCalls,
        MaxCost,
        MaxDelegation,
        MaxFailedCalls,
        MaxFailedRetries,
        MaxLatency,
        MaxParallelCalls,
        MaxTextLength,
        MaxTotalTokens,
        MaxTurns,
        MustBeGrounded,
        MustBeSimilar,
        MustCall,
        MustCallAfter,
        MustCallBefore,
        MustCallOnce,
        MustCallOnly,
        MustComplete,
        MustConfirmBefore,
        MustFollowup,
        MustHaveText,
        MustIncludeText,
        MustIncludeTextEach,
        MustMatchJsonSchema,
        MustMatchLookup,
        MustMatchText,
        MustNotStall,
        MustRefuse,
        MustRemainConsistent,
        NoCall,
        NoChangeAfterApproval,
        NoDenialEvasion,
        NoFalseClaim,
        NoHandoffLoop,
        NoInjectedCall,
        NoLongQuote,
        NoPii,
        NoRepeatedCalls,
        NoRepeatedResults,
        NoSequence,
        NoTextWithCalls,
        NoToolChange,
        NoValueFlow,
        RequiredStopReason,
        ToolGuard,
    ]


@sg.hookimpl
def stream_guard_policy_packs() -> list[sg.PolicyPack]:
    """Return the policy packs made of these kinds."""
    return policy_packs()
