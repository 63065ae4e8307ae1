"""Blocks that the latest symbols of a session repeat, and when a repeat is a hit."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from stream_guard_rules.shared.params import LARGEST_COUNT

Again: TypeAlias = Literal["doubling", "each", "once"]

LONGEST_PERIOD: Final = 6
AGAIN_DESCRIPTION: Final = (
    "when it fires again while the loop goes on: each time it has doubled, at each event, or not at all"
)


def is_due(repeats: int, times: int, again: Again) -> bool:
    """Whether a loop of so many repeats is a hit: at ``times``, and then as ``again`` says."""
    if again != "doubling" or repeats < times:
        return repeats >= times if again == "each" else repeats == times
    doubled, left = divmod(repeats, times)
    return left == 0 and doubled & (doubled - 1) == 0


class Cycles:
    """Finds the shortest block that the latest symbols repeat, from counters that do not grow with the trace.

    ``runs[p - 1]`` is how many of the latest symbols equal the one ``p`` places before them.
    """

    __slots__ = ("_again", "_longest", "_shortest", "_times")

    def __init__(self, shortest: int, longest: int, times: int, again: Again) -> None:
        self._shortest, self._longest, self._times, self._again = shortest, longest, times, again

    def add(self, symbol: str, symbols: list[str], runs: list[int]) -> tuple[int, int] | None:
        """Take a symbol; return period and repeats of a block that is a hit now."""
        if not runs:
            runs.extend([0] * self._longest)
        for period in range(1, self._longest + 1):
            same = len(symbols) >= period and symbols[-period] == symbol
            runs[period - 1] = min(runs[period - 1] + 1, LARGEST_COUNT) if same else 0
        symbols.append(symbol)
        del symbols[: -self._longest]
        for period in range(self._shortest, self._longest + 1):
            length = runs[period - 1] + period
            whole = length % period == 0 or self._again == "each"
            if whole and is_due(length // period, self._times, self._again) and _is_primitive(period, runs):
                return period, length // period
        return None


def _is_primitive(period: int, runs: list[int]) -> bool:
    """Whether the block does not itself consist of a shorter one: AAAA is no cycle of two."""
    return not any(period % part == 0 and runs[part - 1] >= period - part for part in range(1, period))
