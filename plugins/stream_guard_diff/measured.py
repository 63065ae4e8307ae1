"""The names and the weights of what is measured: which axes there are, what people call them, what blocks."""

from __future__ import annotations

from typing import Final, NamedTuple

LEVEL: Final = 0.025  # how often chance alone may block by behaviour
POLICY_LEVEL: Final = 1 / 3  # of that, by the policy: its rules are few, so each needs less
LEAST_SHARE: Final = 0.05  # of the sessions: a smaller change does not matter
LEAST_RATIO: Final = 0.05  # of an amount


class MeasuredKind(NamedTuple):
    """One axis of measures."""

    title: str
    blocks: bool = True
    fault: bool = False  # what it counts is wrong by itself, so that less of it explains what else changed


MEASURED: Final = {
    "rules": MeasuredKind("rules of the policy", fault=True),
    "lesser_rules": MeasuredKind("rules of severity warning and info", blocks=False),
    "skipped_steps": MeasuredKind("steps left out", fault=True),
    "refusals": MeasuredKind("refusals", fault=True),
    "errors": MeasuredKind("failed calls", fault=True),
    "repeats": MeasuredKind("repetition", fault=True),
    "new_tools": MeasuredKind("unusual tools"),
    "arguments": MeasuredKind("odd arguments", fault=True),
    "odd_values": MeasuredKind("odd values", fault=True),
    "task_values": MeasuredKind("values that look wrong for the task", fault=True),
    "tokens": MeasuredKind("length and tokens"),
    "latency": MeasuredKind("latency"),
    "tools": MeasuredKind("tools called"),
    "order": MeasuredKind("order of calls"),
    "argument_names": MeasuredKind("names of arguments"),
    "argument_values": MeasuredKind("values of arguments"),
    "turns": MeasuredKind("length of sessions"),
    "stop_reasons": MeasuredKind("stop reasons"),
    "words": MeasuredKind("words", blocks=False),
}
