"""The test kit for plugin authors: short traces, one-line runs, and the laws of rule kinds, decoders and sinks.

``check_laws`` and ``check_decoder_laws`` need hypothesis: ``pip install 'agent-stream-guard[testing]'``.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard.judge.rule import RuleType
from stream_guard.ports import Decoder
from stream_guard.testing.running import find, one_rule_policy, rule_spec, run_rule
from stream_guard.testing.shorthand import alert, calls, events, turns
from stream_guard.testing.sink_laws import check_sink_laws

__all__ = [
    "alert",
    "calls",
    "check_decoder_laws",
    "check_laws",
    "check_sink_laws",
    "events",
    "find",
    "one_rule_policy",
    "rule_spec",
    "run_rule",
    "turns",
]


def check_laws(kind: RuleType, *, examples: int = 40, longest: int = 10_000) -> None:
    """Hold a rule kind to every law of ``stream_guard.testing.laws``; raise AssertionError naming the broken one."""
    from stream_guard.testing import laws  # noqa: PLC0415  # hypothesis is only needed here

    laws.check_laws(kind, examples=examples, longest=longest)


def check_decoder_laws(kind: type[Decoder], samples: Sequence[bytes], *, examples: int = 100) -> None:
    """Hold a decoder to every law of ``stream_guard.testing.laws``, with records like the samples."""
    from stream_guard.testing import laws  # noqa: PLC0415  # hypothesis is only needed here

    laws.check_decoder_laws(kind, samples, examples=examples)
