"""The test kit for rule authors: short traces, one-line runs, and the laws every kind must keep.

``check_laws`` needs hypothesis: ``pip install 'stream-guard[testing]'``.
"""

from __future__ import annotations

from stream_guard.rule import RuleType
from stream_guard.testing.running import find, one_rule_policy, rule_spec, run_rule
from stream_guard.testing.shorthand import calls, events, turns

__all__ = ["calls", "check_laws", "events", "find", "one_rule_policy", "rule_spec", "run_rule", "turns"]


def check_laws(kind: RuleType, *, examples: int = 40) -> None:
    """Hold a rule kind to every law of ``stream_guard.testing.laws``; raise AssertionError naming the broken one."""
    from stream_guard.testing import laws  # noqa: PLC0415  # hypothesis is only needed here

    laws.check_laws(kind, examples=examples)
