"""Axes about conduct: refusals, how turns stop, and whether answers keep their form."""

from __future__ import annotations

from typing import ClassVar, Literal

from stream_guard import AxisValues, Json, RecordedTurn, Sides, parse_json


class Refusals:
    """The share of turns in which the agent declines. More is worse, and so is less: it may now do what it must not."""

    name: ClassVar[str] = "refusals"
    unit: ClassVar[str] = ""
    statistic: ClassVar[Literal["median", "mean"]] = "mean"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "rate"
    better: ClassVar[Literal["lower", "higher", "same"]] = "same"

    def measure(self, sides: Sides) -> AxisValues:
        """Count the turns that were refusals on each side."""
        return AxisValues(
            baseline=tuple(float(old.refused) for old, _ in sides.pairs),
            candidate=tuple(float(new.refused) for _, new in sides.pairs),
        )


class StopReasons:
    """The share of turns that stop for another reason than they did."""

    name: ClassVar[str] = "stop_reasons"
    unit: ClassVar[str] = ""
    statistic: ClassVar[Literal["median", "mean"]] = "mean"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "rate"
    better: ClassVar[Literal["lower", "higher", "same"]] = "lower"

    def measure(self, sides: Sides) -> AxisValues:
        """Count the turns whose reason changed."""
        changed = tuple(float(old.stop_reason != new.stop_reason) for old, new in sides.pairs)
        return AxisValues(baseline=(0.0,) * len(changed), candidate=changed)


class Conformance:
    """The share of structured answers that keep their form: JSON stays JSON, a tool keeps its arguments' names."""

    name: ClassVar[str] = "conformance"
    unit: ClassVar[str] = ""
    statistic: ClassVar[Literal["median", "mean"]] = "mean"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "rate"
    better: ClassVar[Literal["lower", "higher", "same"]] = "higher"

    def measure(self, sides: Sides) -> AxisValues:
        """Judge the pairs whose baseline has a form to keep."""
        kept = [_keeps_form(old, new) for old, new in sides.pairs if old.calls or _structured(old.text)]
        return AxisValues(baseline=(1.0,) * len(kept), candidate=tuple(map(float, kept)))


def _structured(text: str) -> bool:
    return _unfence(text)[:1] in ("{", "[")


def _keeps_form(old: RecordedTurn, new: RecordedTurn) -> bool:
    if _structured(old.text):
        return _same_form(_parse(_unfence(old.text)), _parse(_unfence(new.text)))
    shapes = {call.shape for call in new.calls}
    return old.calls[0].shape in shapes


def _same_form(old: Json, new: Json) -> bool:
    """A baseline that is no JSON cannot get worse; JSON must stay JSON, with the same keys."""
    if old is None:
        return True
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys()
    return type(old) is type(new)


def _parse(text: str) -> Json:
    try:
        return parse_json(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _unfence(text: str) -> str:
    """Return what stands inside a Markdown fence, where there is one."""
    text = text.strip()
    if not text.startswith("```"):
        return text
    return text.partition("\n")[2].removesuffix("```").strip()
