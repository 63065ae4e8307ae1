"""The rule kinds that come with stream_guard, one file each, and the policy packs made of them."""

from importlib.resources import files
from typing import Final

import stream_guard as sg
from stream_guard_rules.arg_provenance import ArgProvenance
from stream_guard_rules.forbidden_text import ForbiddenText
from stream_guard_rules.ltl_formula import LtlFormula
from stream_guard_rules.max_aggregate import MaxAggregate
from stream_guard_rules.max_calls import MaxCalls
from stream_guard_rules.max_cost import MaxCost
from stream_guard_rules.max_delegation import MaxDelegation
from stream_guard_rules.max_failed_calls import MaxFailedCalls
from stream_guard_rules.max_failed_retries import MaxFailedRetries
from stream_guard_rules.max_latency import MaxLatency
from stream_guard_rules.max_parallel_calls import MaxParallelCalls
from stream_guard_rules.max_text_length import MaxTextLength
from stream_guard_rules.max_total_tokens import MaxTotalTokens
from stream_guard_rules.max_turns import MaxTurns
from stream_guard_rules.must_be_given import MustBeGiven
from stream_guard_rules.must_be_grounded import MustBeGrounded
from stream_guard_rules.must_be_offered import MustBeOffered
from stream_guard_rules.must_be_similar import MustBeSimilar
from stream_guard_rules.must_call import MustCall
from stream_guard_rules.must_call_after import MustCallAfter
from stream_guard_rules.must_call_before import MustCallBefore
from stream_guard_rules.must_call_once import MustCallOnce
from stream_guard_rules.must_call_only import MustCallOnly
from stream_guard_rules.must_complete import MustComplete
from stream_guard_rules.must_confirm_before import MustConfirmBefore
from stream_guard_rules.must_followup import MustFollowup
from stream_guard_rules.must_have_text import MustHaveText
from stream_guard_rules.must_include_text import MustIncludeText
from stream_guard_rules.must_include_text_each import MustIncludeTextEach
from stream_guard_rules.must_match_json_schema import MustMatchJsonSchema
from stream_guard_rules.must_match_lookup import MustMatchLookup
from stream_guard_rules.must_match_text import MustMatchText
from stream_guard_rules.must_not_stall import MustNotStall
from stream_guard_rules.must_refuse import MustRefuse
from stream_guard_rules.must_remain_consistent import MustRemainConsistent
from stream_guard_rules.must_satisfy_judge import MustSatisfyJudge
from stream_guard_rules.no_call import NoCall
from stream_guard_rules.no_change_after_approval import NoChangeAfterApproval
from stream_guard_rules.no_denial_evasion import NoDenialEvasion
from stream_guard_rules.no_false_claim import NoFalseClaim
from stream_guard_rules.no_handoff_loop import NoHandoffLoop
from stream_guard_rules.no_hidden_failure import NoHiddenFailure
from stream_guard_rules.no_injected_call import NoInjectedCall
from stream_guard_rules.no_long_quote import NoLongQuote
from stream_guard_rules.no_pii import NoPii
from stream_guard_rules.no_repeated_calls import NoRepeatedCalls
from stream_guard_rules.no_repeated_results import NoRepeatedResults
from stream_guard_rules.no_sequence import NoSequence
from stream_guard_rules.no_text_with_calls import NoTextWithCalls
from stream_guard_rules.no_tool_change import NoToolChange
from stream_guard_rules.no_value_flow import NoValueFlow
from stream_guard_rules.required_stop_reason import RequiredStopReason
from stream_guard_rules.tool_guard import ToolGuard

_SUMMARIES: Final = {
    "customer_support": "Agents that change customers' records: who it is, what they agreed to, what is told to them.",
    "money_movement": "Agents that pay, refund or buy: amounts, payees, repetition, and payments nobody asked for.",
    "personal_assistant": "Agents that read what strangers write: injected instructions and acts nobody asked for.",
    "runaway": "Any agent: loops, storms of errors, and sessions that go on without end.",
    "workplace": "Agents with a shell, files and services of a company: harm to people, records and safeguards.",
}


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
        MustBeGiven,
        MustBeGrounded,
        MustBeOffered,
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
        MustSatisfyJudge,
        NoCall,
        NoChangeAfterApproval,
        NoDenialEvasion,
        NoFalseClaim,
        NoHandoffLoop,
        NoHiddenFailure,
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
    """Return the policy packs made of these kinds, in order of their names: rules for common sorts of agents."""
    folder = files(__package__) / "packs"
    return [
        sg.PolicyPack(name=name, summary=summary, file=folder / f"{name}.yaml") for name, summary in _SUMMARIES.items()
    ]
