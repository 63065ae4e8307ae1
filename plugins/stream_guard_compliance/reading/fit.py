"""A statement that a production fits, and what a production is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stream_guard_compliance.reading.symbols import COUNTED
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading


@dataclass(frozen=True, slots=True)
class Fit:
    """A statement that a production fits: the tokens of each of its marked parts."""

    tokens: Sequence[Token]
    parts: dict[str, tuple[int, int]]

    def of(self, part: str) -> Sequence[Token]:
        """Return the tokens of a part, none where the statement does not have it."""
        start, end = self.parts.get(part, (0, 0))
        return self.tokens[start:end] if start >= 0 else ()

    def tools(self, part: str = "tools") -> tuple[str, ...]:
        """Return the tools that a part names."""
        return tuple(dict.fromkeys(token.text for token in self.of(part) if token.symbol == "TOOL"))

    def words(self, part: str) -> str:
        """Return the words of a part, small."""
        return " ".join(token.low for token in self.of(part))

    def amount(self) -> float:
        """Return the number of the part ``n``, with its cents."""
        low = next((token.low for token in self.of("n") if token.symbol == "NUM"), "0")
        return float(COUNTED[low]) if low in COUNTED else float(low.lstrip("$\u20ac\u00a3 ").replace(",", ""))

    def number(self) -> int:
        """Return the number of the part ``n`` as a count; -1 where it is none."""
        for token in self.of("n"):
            if token.symbol == "RANGE":
                return int(re.split(r"\D+", token.text)[-1])
            if token.symbol == "NUM":
                return int(self.amount())
            if token.symbol in {"TIMES", "ONCE"}:
                return {"once": 1, "twice": 2, "thrice": 3}.get(token.low, -1)  # "times" alone is no number
        return 0


Builder: TypeAlias = Callable[[Fit], "Reading | None"]
Production: TypeAlias = tuple[Builder, tuple[str, ...]]
"""What statements say, and the patterns that fit them."""
