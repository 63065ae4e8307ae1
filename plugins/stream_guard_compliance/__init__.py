"""Compliance: the rules of a system prompt, read without a model, run by the engine."""

from stream_guard_compliance.check import check_compliance
from stream_guard_compliance.results import BehavioralRule, ComplianceResult, Verdict, Violation
from stream_guard_compliance.rules import Extraction, extract

__all__ = [
    "BehavioralRule",
    "ComplianceResult",
    "Extraction",
    "Verdict",
    "Violation",
    "check_compliance",
    "extract",
]
