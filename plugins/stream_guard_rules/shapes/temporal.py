"""How ``ltl_formula`` is written, and what it remembers."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.ltl import MAX_CHARS, FormulaError, parse
from stream_guard_rules.monitor import START, Monitor

_KNOWN: Final = ("tool_call:", "stop_reason:", "text_contains:", "extra:")


def _is_known(atom: str) -> bool:
    return atom.startswith(_KNOWN) and (not atom.startswith("extra:") or "=" in atom)


@lru_cache(maxsize=64)
def watch(formula: str) -> Monitor:
    """Return the machine that watches a formula; parameters and rule ask for the same one."""
    return Monitor(parse(formula), _is_known)


class LtlFormulaParams(sg.Params):
    """Parameters of ``ltl_formula``."""

    formula: str = Field(
        max_length=MAX_CHARS,
        description="a formula over the turns; atoms tool_call:X, stop_reason:X, text_contains:X, extra:label=value, "
        "true, false; operators ! G F X, U W, &, |, ->",
    )

    @field_validator("formula")
    @classmethod
    def _can_be_watched(cls, formula: str) -> str:
        try:
            watch(formula)
        except FormulaError as error:
            raise PydanticCustomError("formula", "not a usable formula: {why}", {"why": str(error)}) from None
        return formula


class FormulaState(sg.State):
    """Where the monitor stands, before the latest turn and after it, and what is known of that turn."""

    before: int = START
    after: int = START
    facts: int = 0
    index: int = -1
    open: bool = False  # the turn announced calls that it did not list
    over: bool = False  # it has fired, or can never fire
