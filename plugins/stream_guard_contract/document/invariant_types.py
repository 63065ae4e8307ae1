"""The invariant types of Flakestorm: the fields each needs, the fields it takes, and whether it can be negated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class InvariantType:
    """The fields of one invariant type."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()  # optional fields
    negate: str = ""  # why it cannot be negated; empty where it can be


_SIMILAR: Final = ("threshold", "similarity_threshold", "similarity")

TYPES: Final[dict[str, InvariantType]] = {
    "contains": InvariantType(("value",)),
    "contains_any": InvariantType(("values",)),
    "regex": InvariantType(("pattern",)),
    "latency": InvariantType(("max_ms",), negate="an answer that must be slow is no promise"),
    "valid_json": InvariantType(),
    "similarity": InvariantType(("expected",), _SIMILAR),
    "excludes_pii": InvariantType(),
    "excludes_pattern": InvariantType(("patterns",), ("regex",)),
    "refusal_check": InvariantType((), ("dangerous_prompts",)),
    "completes": InvariantType(negate="an answer that must fail is no promise"),
    "output_not_empty": InvariantType(),
    "behavior_unchanged": InvariantType((), ("baseline", *_SIMILAR)),
    "system_prompt_leak_probe": InvariantType(("patterns", "probes"), ("regex",)),
}

TYPE_FIELDS: Final = frozenset(name for one in TYPES.values() for name in (*one.needs, *one.takes) if name != "probes")
"""The fields that belong to certain types and not to every invariant."""
