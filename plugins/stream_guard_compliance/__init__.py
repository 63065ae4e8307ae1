"""Compliance: the rules of a system prompt, read without a model, run by the engine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from stream_guard import Command, hookimpl

if TYPE_CHECKING:
    from stream_guard import RuleType
    from stream_guard_compliance.check import check_compliance
    from stream_guard_compliance.extraction import Extraction, extract
    from stream_guard_compliance.results import BehavioralRule, ComplianceResult, RuleVerdict, Violation

__all__ = [
    "BehavioralRule",
    "ComplianceResult",
    "Extraction",
    "RuleVerdict",
    "Violation",
    "check_compliance",
    "extract",
    "stream_guard_commands",
    "stream_guard_rules",
]

# Loaded when asked for: every process imports this module, few check compliance.
_LAZY: Final = {
    "BehavioralRule": "stream_guard_compliance.results",
    "ComplianceResult": "stream_guard_compliance.results",
    "Extraction": "stream_guard_compliance.extraction",
    "RuleVerdict": "stream_guard_compliance.results",
    "Violation": "stream_guard_compliance.results",
    "check_compliance": "stream_guard_compliance.check",
    "extract": "stream_guard_compliance.extraction",
}


@hookimpl
def stream_guard_rules() -> list[RuleType]:
    """Return the kind that holds an agent to the prompt in its own telemetry."""
    # Every process imports this module, for its commands; only those that load policies need the kind.
    from stream_guard_compliance.must_keep_prompt import MustKeepPrompt

    return [MustKeepPrompt]


@hookimpl
def stream_guard_commands() -> list[Command]:
    """Return the group of commands about compliance."""
    commands = (
        Command(
            name="check",
            help="Say which rules of a prompt the traces break; exit 1 for violations, 4 when something stayed open.",
            target="stream_guard_compliance.command:check",
        ),
        Command(
            name="extract",
            help="Write a policy to review: every sentence of a prompt, in order, as a rule, a question or not a rule.",
            target="stream_guard_compliance.command:extract_policy",
        ),
        Command(
            name="watch",
            help="Hold sessions against the prompts that their own turns carry; "
            "exit 1 for violations, 4 when some stayed open.",
            target="stream_guard_compliance.command:watch",
        ),
    )
    return [Command(name="compliance", help="Hold agents to their system prompt.", commands=commands)]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
