"""Boolean functions as reduced ordered decision diagrams: equal functions are one number."""

from __future__ import annotations

from typing import Final

from stream_guard_rules.ltl import FormulaError

FALSE: Final = 0
TRUE: Final = 1

_LEAF: Final = 1_000_000  # sorts after every variable
_MAX_NODES: Final = 50_000


class Diagrams:
    """All functions made together share their nodes: (variable, where it is false, where it is true)."""

    __slots__ = ("_chosen", "_known", "nodes")

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, int]] = [(_LEAF, FALSE, FALSE), (_LEAF, TRUE, TRUE)]
        self._known: dict[tuple[int, int, int], int] = {}
        self._chosen: dict[tuple[int, int, int], int] = {}

    def variable(self, number: int) -> int:
        """Return the function that is the variable itself."""
        return self._node(number, FALSE, TRUE)

    def choose(self, condition: int, then: int, otherwise: int) -> int:
        """Return the function that is ``then`` where the condition holds and ``otherwise`` where it does not."""
        if condition in {FALSE, TRUE}:
            return then if condition == TRUE else otherwise
        if then == otherwise:
            return then
        key = (condition, then, otherwise)
        known = self._chosen.get(key)
        if known is None:
            top = min(self.nodes[condition][0], self.nodes[then][0], self.nodes[otherwise][0])
            low = self.choose(*[self._branch(function, top, 1) for function in key])
            high = self.choose(*[self._branch(function, top, 2) for function in key])
            known = self._chosen[key] = self._node(top, low, high)
        return known

    def _branch(self, function: int, variable: int, side: int) -> int:
        node = self.nodes[function]
        return node[side] if node[0] == variable else function

    def _node(self, variable: int, low: int, high: int) -> int:
        if low == high:
            return low
        key = (variable, low, high)
        known = self._known.get(key)
        if known is None:
            if len(self.nodes) >= _MAX_NODES:
                raise FormulaError("the formula is too large to be watched; write several rules")
            known = self._known[key] = len(self.nodes)
            self.nodes.append(key)
        return known
