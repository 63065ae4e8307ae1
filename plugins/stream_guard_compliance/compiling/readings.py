"""From a reading to its rules, or to the reason why a machine cannot check the sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from stream_guard_compliance.compiling import arguments, calls, limits, orders, texts
from stream_guard_compliance.compiling.context import CompileContext, CompiledReading, params_of
from stream_guard_compliance.compiling.gates import about_files, in_case, unless_asked
from stream_guard_compliance.reading.values import Reading

_MAX_PARAM: Final = 30_000  # characters of one parameter, well under what a policy takes


def compile_reading(reading: Reading, context: CompileContext) -> CompiledReading:
    """Return rules of ordinary kinds, or the reason why a machine cannot check the sentence."""
    if not reading.concrete:
        return CompiledReading(why=reading.why or "it leaves to judgement what counts")
    if reading.inner is not None:
        return _gated(reading, reading.inner, context)
    if reading.kind in {"forbid_output", "forbid_arg"} and not reading.shape and any(map(_says_nothing, reading.items)):
        return CompiledReading(why="a text of less than two letters or digits would be found everywhere")
    compiled = _COMPILERS[reading.kind](reading, context)
    compiled = about_files(compiled, reading.files) if reading.files else compiled
    if any(len(str(value)) > _MAX_PARAM for form in compiled.rules for value in params_of(form).values()):
        return CompiledReading(why="it lists more than a rule can hold")
    return replace(compiled, certain=False) if reading.proposed or reading.guess else compiled


def _gated(reading: Reading, inner: Reading, context: CompileContext) -> CompiledReading:
    """Return the rules of what holds in a case, or unless the user asks for it."""
    compiled = compile_reading(replace(inner, concrete=True, proposed=reading.proposed), context)
    if reading.case is not None:
        compiled = in_case(compiled, reading.case, context)
    return unless_asked(compiled, reading.words) if reading.asked else compiled


def _says_nothing(text: str) -> bool:
    return sum(char.isalnum() for char in text) < 2


_COMPILERS: Final[dict[str, Callable[[Reading, CompileContext], CompiledReading]]] = {
    "forbid_tool": calls.forbid_tool,
    "forbid_arg": arguments.forbid_arg,
    "allow_only": calls.allow_only,
    "forbid_output": texts.forbid_output,
    "require_output": texts.require_output,
    "require_tool": calls.require_tool,
    "limit": limits.limit,
    "order": orders.order,
    "confirm_before": orders.confirm_before,
    "conditional": arguments.over_amount,
}
