"""A formula as a state machine: one step at each turn, until the formula is lost or won for good.

What a formula still requires of later turns is a Boolean function of obligations ("b must still come", "a must
go on"). Functions are shared decision diagrams: equal functions are one number, and a step follows the facts of
the turn. All states are found when the policy is loaded. A session keeps one small number, whatever its length;
a formula with too many states is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from stream_guard_rules.shared.ltl import Atom, Binary, Formula, FormulaError, Unary, names_in

MAX_STATES: Final = 1000
MAX_ATOMS: Final = 32
_MOST_STEPS: Final = 4096

START: Final = 0
"""The state before the first turn."""

# Of decision diagrams: the two functions that never change, and what bounds the others.
_FALSE: Final = 0
_TRUE: Final = 1

_LEAF: Final = 1_000_000  # sorts after every variable
_MAX_NODES: Final = 50_000


class Monitor:
    """The state machine. A turn's facts are the bits of a number, one for each of ``atoms``."""

    __slots__ = ("_nodes", "_numbers", "_roots", "_steps", "accepting", "atoms", "lost", "won")

    def __init__(self, formula: Formula, is_known: Callable[[str], bool]) -> None:
        names = dict.fromkeys(name for name in names_in(formula) if is_known(name))
        if len(names) > MAX_ATOMS:
            raise FormulaError(f"the formula has more than {MAX_ATOMS} different atoms; write several rules")
        self.atoms = tuple(names)
        unfolding = _Unfolding(formula, self.atoms)
        self._nodes = unfolding.diagrams.nodes
        self._numbers: dict[int, int] = {unfolding.start: START}
        self._roots: list[int] = []
        self._steps: dict[tuple[int, int], int] = {}  # those that were taken: most sessions take the same few
        self._explore(unfolding)
        states = range(len(self._roots))
        after = {state: set(self.outcomes(state, 0, -1)) for state in states}
        ends = {number for node, number in self._numbers.items() if unfolding.is_met_at_end(node)}
        self.accepting = frozenset(ends)  # the formula holds if no turn follows
        self.lost = frozenset(set(states) - _leading_to(ends, after))  # it holds no more, whatever follows
        self.won = frozenset(set(states) - _leading_to(set(states) - ends, after))  # it holds, whatever follows

    def _explore(self, unfolding: _Unfolding) -> None:
        """Find every reachable state, in an order that depends on the formula alone."""
        waiting = [unfolding.start]
        for node in waiting:  # grows while it is walked
            self._roots.append(unfolding.rewrite(node))
            for leaf in self._leaves(self._roots[-1], 0, -1):
                if leaf not in self._numbers:
                    if len(self._numbers) >= MAX_STATES:
                        raise FormulaError(f"the formula needs more than {MAX_STATES} states; write several rules")
                    self._numbers[leaf] = len(self._numbers)
                    waiting.append(leaf)

    def step(self, state: int, facts: int) -> int:
        """Return the state after a turn with these facts."""
        known = self._steps.get((state, facts))
        if known is not None:
            return known
        nodes, node, atoms = self._nodes, self._roots[state], len(self.atoms)
        while (entry := nodes[node])[0] < atoms:
            node = entry[2] if facts >> entry[0] & 1 else entry[1]
        after = self._numbers[node]
        if len(self._steps) < _MOST_STEPS:
            self._steps[state, facts] = after
        return after

    def outcomes(self, state: int, facts: int, unknown: int) -> Iterator[int]:
        """Yield each state that is possible after a turn whose facts in the mask ``unknown`` are open."""
        return (self._numbers[node] for node in self._leaves(self._roots[state], facts, unknown))

    def _leaves(self, root: int, facts: int, unknown: int) -> Iterator[int]:
        waiting, seen = [root], {root}
        while waiting:
            node = waiting.pop()
            variable, low, high = self._nodes[node]
            if variable >= len(self.atoms):
                yield node
                continue
            open_ = unknown >> variable & 1
            true = facts >> variable & 1
            for child in [low, high] if open_ else [high if true else low]:
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)


class _Unfolding:
    """A formula as functions over atoms, which come first, and obligations on the next turn."""

    def __init__(self, formula: Formula, atoms: tuple[str, ...]) -> None:
        self.diagrams = _Diagrams()
        self._atoms = {name: self.diagrams.variable(number) for number, name in enumerate(atoms)}
        self._obligations: dict[Formula | None, int] = {}
        self._functions: dict[Formula, int] = {}
        self._rewritten: dict[int, int] = {_FALSE: _FALSE, _TRUE: _TRUE}
        self.start = self._obligation(formula)
        self._requirements = self._unfold()

    def _unfold(self) -> dict[int, tuple[Formula | None, int]]:
        """Return the formula of each obligation, by its number, and what it requires of its turn."""
        requirements: dict[int, tuple[Formula | None, int]] = {}
        while len(requirements) < len(self._obligations):
            for number, formula in enumerate(list(self._obligations), len(self._atoms)):
                if number not in requirements:
                    requirements[number] = formula, _TRUE if formula is None else self._function(formula)
        return requirements

    def _obligation(self, formula: Formula | None) -> int:
        """Return the variable for "this holds from the next turn on"; None is "there is a next turn"."""
        known = self._obligations.get(formula)
        if known is None:
            known = self.diagrams.variable(len(self._atoms) + len(self._obligations))
            self._obligations[formula] = known
        return known

    def _function(self, formula: Formula) -> int:
        """Return what the formula requires of this turn and the next."""
        known = self._functions.get(formula)
        if known is None:
            known = self._functions[formula] = self._compose(formula)
        return known

    def _compose(self, formula: Formula) -> int:
        choose = self.diagrams.choose
        if isinstance(formula, Atom):
            # An atom that nothing can make true is false, as the word `false` is.
            return _TRUE if formula.name == "true" else self._atoms.get(formula.name, _FALSE)
        if isinstance(formula, Binary):
            left, right = self._function(formula.left), self._function(formula.right)
            if formula.operator in {"U", "W"}:
                return choose(right, _TRUE, choose(left, self._obligation(formula), _FALSE))
            then, otherwise = {"&": (right, _FALSE), "|": (_TRUE, right), "->": (right, _TRUE)}[formula.operator]
            return choose(left, then, otherwise)
        if formula.operator == "X":
            # Strong: in the last turn there is no next one, and X is false whatever it asks.
            return choose(self._obligation(formula.operand), self._obligation(None), _FALSE)
        operand = self._function(formula.operand)
        if formula.operator == "!":
            return choose(operand, _FALSE, _TRUE)
        obligation = self._obligation(formula)
        return choose(operand, obligation, _FALSE) if formula.operator == "G" else choose(operand, _TRUE, obligation)

    def rewrite(self, node: int) -> int:
        """Return a state's function with every obligation replaced by what it requires of the next turn."""
        known = self._rewritten.get(node)
        if known is None:
            variable, low, high = self.diagrams.nodes[node]
            known = self.diagrams.choose(self._requirements[variable][1], self.rewrite(high), self.rewrite(low))
            self._rewritten[node] = known
        return known

    def is_met_at_end(self, node: int) -> bool:
        """Whether the state's obligations are met when no turn follows."""
        while node not in {_FALSE, _TRUE}:
            variable, low, high = self.diagrams.nodes[node]
            formula = self._requirements[variable][0]
            met = isinstance(formula, Unary | Binary) and formula.operator in {"G", "W"}
            node = high if met else low
        return node == _TRUE


class _Diagrams:
    """Boolean functions as reduced ordered decision diagrams: equal functions are one number.

    All functions made together share their nodes: (variable, where it is false, where it is true).
    """

    __slots__ = ("_chosen", "_known", "nodes")

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, int]] = [(_LEAF, _FALSE, _FALSE), (_LEAF, _TRUE, _TRUE)]
        self._known: dict[tuple[int, int, int], int] = {}
        self._chosen: dict[tuple[int, int, int], int] = {}

    def variable(self, number: int) -> int:
        """Return the function that is the variable itself."""
        return self._node(number, _FALSE, _TRUE)

    def choose(self, condition: int, then: int, otherwise: int) -> int:
        """Return the function that is ``then`` where the condition holds and ``otherwise`` where it does not."""
        if condition in {_FALSE, _TRUE}:
            return then if condition == _TRUE else otherwise
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


def _leading_to(goal: Iterable[int], after: Mapping[int, set[int]]) -> set[int]:
    """Return the states from which some sequence of turns, possibly empty, leads into the goal."""
    before: dict[int, set[int]] = {state: set() for state in after}
    for state, nexts in after.items():
        for following in nexts:
            before[following].add(state)
    found = set(goal)
    waiting = list(found)
    while waiting:
        new = before[waiting.pop()] - found
        found |= new
        waiting += new
    return found
