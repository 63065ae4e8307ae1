"""The names and the weights of what is measured: which axes there are, what people call them, what blocks."""

from __future__ import annotations

from typing import Final, NamedTuple

LEVEL: Final = 0.03  # how often chance alone may block, for each surface
LEAST_SHARE: Final = 0.05  # of the sessions: a smaller change does not matter
LEAST_RATIO: Final = 0.05  # of an amount


class MeasuredKind(NamedTuple):
    """One axis of measures."""

    title: str
    share: float = 1.0  # of the level, beside the others: an axis that shows one sort of fault gets more
    blocks: bool = True
    fault: bool = False  # what it counts is wrong by itself, so that less of it explains what else changed


# Axes with a share of 1 count faults, which good sessions hardly have: few sessions suffice to show a change. The
# others describe everything that sessions do: large changes show in them, and those are far from chance.
MEASURED: Final = {
    "rules": MeasuredKind("rules of the policy", fault=True),
    "lesser_rules": MeasuredKind("rules of severity warning and info", 1.0, blocks=False),
    "skipped_steps": MeasuredKind("steps left out", fault=True),
    "refusals": MeasuredKind("refusals", fault=True),
    "errors": MeasuredKind("failed calls", fault=True),
    "repeats": MeasuredKind("repetition", fault=True),
    "new_tools": MeasuredKind("unusual tools"),
    "arguments": MeasuredKind("odd arguments", fault=True),
    "odd_values": MeasuredKind("odd values", fault=True),
    "tokens": MeasuredKind("length and tokens"),
    "latency": MeasuredKind("latency"),
    "tools": MeasuredKind("tools called", 0.1),
    "order": MeasuredKind("order of calls", 0.1),
    "argument_names": MeasuredKind("names of arguments", 0.1),
    "argument_values": MeasuredKind("values of arguments", 0.1),
    "turns": MeasuredKind("length of sessions", 0.1),
    "stop_reasons": MeasuredKind("stop reasons", 0.1),
    "words": MeasuredKind("words", 1.0, blocks=False),
}
