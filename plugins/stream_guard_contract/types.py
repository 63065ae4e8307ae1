"""The types of invariant that Flakestorm has: what each needs, what it reads, and what it may not be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TypeOf:
    """What a type of invariant asks of its fields."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()  # besides those it needs
    negate: str = ""  # why it cannot be negated; empty where it can


_SIMILAR: Final = ("threshold", "similarity_threshold", "similarity")

TYPES: Final[dict[str, TypeOf]] = {
    "contains": TypeOf(("value",)),
    "contains_any": TypeOf(("values",)),
    "regex": TypeOf(("pattern",)),
    "latency": TypeOf(("max_ms",), negate="an answer that must be slow is no promise"),
    "valid_json": TypeOf(),
    "similarity": TypeOf(("expected",), _SIMILAR),
    "excludes_pii": TypeOf(),
    "excludes_pattern": TypeOf(("patterns",), ("regex",)),
    "refusal_check": TypeOf((), ("dangerous_prompts",)),
    "completes": TypeOf(negate="an answer that must fail is no promise"),
    "output_not_empty": TypeOf(),
    "behavior_unchanged": TypeOf((), ("baseline", *_SIMILAR)),
    "system_prompt_leak_probe": TypeOf(("patterns", "probes"), ("regex",)),
}

OF_A_TYPE: Final = frozenset(name for one in TYPES.values() for name in (*one.needs, *one.takes) if name != "probes")
"""The fields that belong to some type and not to every invariant."""
