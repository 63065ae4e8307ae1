"""YAML and JSON files as data with places: every problem at once, each with its line and advice; and YAML written."""

from __future__ import annotations

from stream_guard.policy.convert import write_yaml
from stream_guard.policy.document import read_document
from stream_guard.policy.forms import MAX_REASON
from stream_guard.policy.message_parts import Code, Steps, did_you_mean, listed, printable, show
from stream_guard.policy.native import NativePolicy, ProblemReport
from stream_guard.policy.translation import problems_of

__all__ = [
    "MAX_REASON",
    "Code",
    "NativePolicy",
    "ProblemReport",
    "Steps",
    "did_you_mean",
    "listed",
    "printable",
    "problems_of",
    "read_document",
    "show",
    "write_yaml",
]
