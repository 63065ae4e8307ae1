"""The turns of a session make a formula of linear temporal logic true."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.events import awaits_calls
from stream_guard_rules.shared.evidence import cut
from stream_guard_rules.shared.ltl import MAX_CHARS, PAST_PREFIX, FormulaError, PastFormulas, parse
from stream_guard_rules.shared.ltl_monitor import START, Monitor

_KNOWN: Final = ("tool_call:", "stop_reason:", "text_contains:", "extra:")


def _is_known(atom: str) -> bool:
    if atom.startswith(PAST_PREFIX):
        return True
    return atom.startswith(_KNOWN) and (not atom.startswith("extra:") or "=" in atom)


@lru_cache(maxsize=64)
def monitor_of(formula: str) -> tuple[Monitor, PastFormulas]:
    """Return the monitor of a formula, and its part about the past; parameters and rule share them."""
    past = PastFormulas(parse(formula))
    return Monitor(past.formula, _is_known), past


class LtlFormulaParams(sg.Params):
    """Parameters of ``ltl_formula``."""

    formula: str = Field(
        max_length=MAX_CHARS,
        description="a formula over the turns; atoms tool_call:X, stop_reason:X, text_contains:X, extra:label=value, "
        "true, false; operators ! G F X, U W, &, |, ->; previous, formerly, historically, since; within[n], always[n]",
    )

    @field_validator("formula")
    @classmethod
    def _can_be_watched(cls, formula: str) -> str:
        try:
            monitor_of(formula)
        except FormulaError as error:
            raise PydanticCustomError("formula", "not a usable formula: {why}", {"why": str(error)}) from None
        return formula


class LtlFormulaState(sg.State):
    """The monitor's state before and after the latest turn, and what is known of that turn."""

    before: int = START
    after: int = START
    facts: int = 0
    index: int = -1
    open: bool = False  # the turn announced calls that it did not list
    over: bool = False  # it has fired, or can never fire
    past_operators: int = 0  # what held before the latest turn, a bit for each operator about the past
    past_operators_after: int = 0


class LtlFormula(sg.Rule[LtlFormulaParams, LtlFormulaState]):
    """The turns of a session must make a formula of linear temporal logic true.

    It fires once: at the turn that makes the formula false for good, or at the end if the formula is not true by
    then. ``X`` is false in the last turn, and ``a U b`` needs its ``b``. ``formerly a`` is true from a turn with a on,
    ``a since b`` as long as a has held since a turn with b, ``previous a`` in the turn after one with a. An unknown
    atom is false. With a ``when``, only the turns inside the gate count.
    """

    kind = "ltl_formula"
    fires_once = True
    state_limit = 80
    examples = (
        sg.Example(
            claim="the turn that makes it false is a hit",
            params={"formula": "!tool_call:refund U tool_call:confirm"},
            trace=[{"turn": "hello"}, {"turn": None, "calls": ["refund"]}, {"turn": None, "calls": ["confirm"]}],
            hits=[1],
        ),
        sg.Example(
            claim="what did not come true is a hit at the end",
            params={"formula": "G (tool_call:quote -> F tool_call:confirm)"},
            trace=[{"turn": None, "calls": ["quote"]}, {"turn": "bye"}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="the past is looked at where a turn asks for it",
            params={"formula": "G (tool_call:refund -> formerly tool_call:confirm)"},
            trace=[
                {"turn": None, "calls": ["confirm"]},
                {"turn": None, "calls": ["refund"]},
            ],
            hits=[],
        ),
        sg.Example(
            claim="a formula that holds is silent",
            params={"formula": "G (tool_call:quote -> F tool_call:confirm)"},
            trace=[{"turn": None, "calls": ["quote"]}, {"turn": None, "calls": ["confirm"]}, {"end": "closed"}],
            hits=[],
        ),
    )

    def __init__(self, params: LtlFormulaParams) -> None:
        super().__init__(params)
        self._monitor, self._past_formulas = monitor, past = monitor_of(params.formula)
        # The monitor's atoms come first, then the atoms that only formulas about the past read.
        self._atoms = [*monitor.atoms, *(name for name in past.names if name not in monitor.atoms and _is_known(name))]
        parts = [(1 << number, atom) for number, atom in enumerate(self._atoms) if not atom.startswith(PAST_PREFIX)]
        self._facts = [(bit, atom.partition(":")[0], atom.partition(":")[2]) for bit, atom in parts]
        self._past_atom_bits = [1 << monitor.atoms.index(atom) if atom in monitor.atoms else 0 for atom in past.atoms]
        self._mask = (1 << len(monitor.atoms)) - 1
        self._tool_bits = {value: bit for bit, what, value in self._facts if what == "tool_call"}
        self._unknown = sum(self._tool_bits.values())
        self._reads_stop = any(what == "stop_reason" for _, what, _ in self._facts)
        self._only_tools = len(self._tool_bits) == len(self._facts)

    def tools(self) -> sg.ToolPattern:
        """The tools the formula names."""
        return sg.ToolPattern(list(self._tool_bits))

    def decided(self) -> Literal["never", "always"] | None:
        """A formula that is always true never fires; one that is never true always does."""
        after = set(self._monitor.outcomes(START, 0, -1))  # of any first turn
        return "never" if after <= self._monitor.won else "always" if after <= self._monitor.lost else None

    def needs(self) -> frozenset[sg.Need]:
        """Text, when the formula looks for one."""
        return frozenset(("content",) if any(what == "text_contains" for _, what, _ in self._facts) else ())

    def on_turn(self, turn: sg.Turn, state: LtlFormulaState) -> sg.Verdict:
        """Take a step."""
        if state.over:
            return None
        if state.open and state.after in self._monitor.lost:
            # The calls that the previous turn announced did not come: the formula is lost.
            return self._fire(state)
        if state.after in self._monitor.won:
            state.over = True
            return None
        if self._reads_stop and turn.response.get("stop_reason") is None:
            return sg.Unsure("unevaluable", "a stop_reason")
        facts, is_open = self._facts_of(turn), self._unknown != 0 and not turn.tools and awaits_calls(turn)
        is_same = state.before == state.after and state.facts == facts and state.index >= 0 and not self._past_atom_bits
        state.index = turn.index
        if is_same and not is_open and not state.open:
            return None  # the same step once more: it leads where it led
        # What changes is written, and no more: most turns change nothing.
        if state.before != state.after:
            state.before = state.after
        if state.facts != facts:
            state.facts = facts
        if state.past_operators != state.past_operators_after:
            state.past_operators = state.past_operators_after
        if state.open != is_open:
            state.open = is_open
        return self._step(state)

    def on_tool_call(self, call: sg.ToolCall, state: LtlFormulaState) -> sg.Verdict:
        """Add a call that its turn did not list to the facts of the turn."""
        if state.over:
            return None
        bit = self._tool_bits.get(call.tool, 0)
        if call.index != state.index or state.index < 0 or state.facts & bit == bit:
            return None
        state.facts |= bit
        return self._step(state)

    def on_session_end(self, _end: sg.SessionEnd, state: LtlFormulaState) -> sg.Hit | None:
        """Fire when the formula is not true; a session without turns is not judged."""
        if state.over or state.index < 0 or state.after in self._monitor.accepting:
            return None
        if state.after in self._monitor.lost:  # by the calls that a turn announced and that did not come
            return self._fire(state)
        formula = cut(self.params.formula)
        return sg.Hit(f"the session ended before this came true: {formula}", {"formula": formula}, state.index)

    def _facts_of(self, turn: sg.Turn) -> int:
        facts = 0
        if self._only_tools:
            for tool in turn.tools:
                facts |= self._tool_bits.get(tool, 0)
            return facts
        for bit, what, value in self._facts:
            if what == "tool_call":
                holds = value in turn.tools
            elif what == "stop_reason":
                holds = turn.response.get("stop_reason") == value
            elif what == "text_contains":
                holds = value in turn.text
            else:
                label, _, wanted = value.partition("=")
                holds = turn.labels.get(label) == wanted
            if holds:
                facts |= bit
        return facts

    def _step(self, state: LtlFormulaState) -> sg.Hit | None:
        """Move by the known facts of the turn; fire when no call that may still come can save the formula."""
        monitor = self._monitor
        facts = self._with_past_facts(state) if self._past_atom_bits else state.facts
        after = monitor.step(state.before, facts)
        if state.after != after:
            state.after = after
        if after not in monitor.lost:
            return None
        if state.open:
            # What a call that may still come says about the past is open too.
            unknown = (self._unknown & ~state.facts | sum(self._past_atom_bits)) & self._mask
            if not all(after in monitor.lost for after in monitor.outcomes(state.before, facts, unknown)):
                return None
        return self._fire(state)

    def _with_past_facts(self, state: LtlFormulaState) -> int:
        """Return the facts of the turn with those about the past, and remember what the next turn needs."""
        facts = {atom: bool(state.facts >> number & 1) for number, atom in enumerate(self._atoms)}
        state.past_operators_after, holds = self._past_formulas.step(facts, state.past_operators)
        past_facts = sum(bit for bit, held in zip(self._past_atom_bits, holds, strict=True) if held)
        return (state.facts & self._mask) | past_facts

    def _fire(self, state: LtlFormulaState) -> sg.Hit:
        state.over = True
        formula = cut(self.params.formula)
        return sg.Hit(f"false from turn {state.index} on: {formula}", {"formula": formula}, state.index)
