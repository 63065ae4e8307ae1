"""Axes about what a turn uses: tokens, time, money. Less is better and never fails a gate."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, log, sqrt
from typing import ClassVar, Literal

from stream_guard import AxisValues, Json, RecordedTurn, Sides, parse_json

_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)$")


class _Axis:
    """What most axes have in common."""

    name: ClassVar[str]
    unit: ClassVar[str] = ""
    statistic: ClassVar[Literal["median", "mean"]] = "median"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "relative"
    better: ClassVar[Literal["lower", "higher", "same"]] = "lower"


class Verbosity(_Axis):
    """The tokens of a response."""

    name = "verbosity"
    unit = "tokens"

    def measure(self, sides: Sides) -> AxisValues:
        """Compare the turns where both sides have the number."""
        return _both(sides, lambda turn: _tokens(turn, "output_tokens"))


class Latency(_Axis):
    """How long a response took."""

    name = "latency"
    unit = "ms"

    def measure(self, sides: Sides) -> AxisValues:
        """Compare the turns where both sides have the number."""
        return _both(sides, lambda turn: _number(turn.response.get("latency_ms")))


class Reasoning(_Axis):
    """Thinking: its tokens, and its blocks where tokens are not counted."""

    name = "reasoning"
    unit = "tokens"

    def measure(self, sides: Sides) -> AxisValues:
        """Compare; a turn without a record of thinking counts as none."""
        return _both(sides, _thinking)


class Cost(_Axis):
    """What a turn costs, by a table of prices; without a price for a model, its turns are left out and flagged."""

    name = "cost"
    unit = "USD"

    def measure(self, sides: Sides) -> AxisValues:
        """Compare the turns whose models have prices."""
        values = _both(sides, lambda turn: _cost(turn, sides.prices))
        if sides.pairs and len(values.baseline) < len(sides.pairs):
            return AxisValues(baseline=values.baseline, candidate=values.candidate, flags=("no_pricing",))
        return values


def _both(sides: Sides, read: Callable[[RecordedTurn], float | None]) -> AxisValues:
    pairs = [(read(old), read(new)) for old, new in sides.pairs]
    known = [(old, new) for old, new in pairs if old is not None and new is not None]
    return AxisValues(baseline=tuple(old for old, _ in known), candidate=tuple(new for _, new in known))


def _number(value: Json) -> float | None:
    """Return a measurement, or None where the recording has no sensible number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15 or not isfinite(value):
        return None
    return float(value)


def _tokens(turn: RecordedTurn, sort: str) -> float | None:
    usage = turn.response.get("usage")
    return _number(usage.get(sort)) if isinstance(usage, dict) else None


def _thinking(turn: RecordedTurn) -> float:
    content = turn.response.get("content")
    blocks = content if isinstance(content, list) else ()
    counted = len([1 for block in blocks if isinstance(block, dict) and block.get("type") == "thinking"])
    return (_tokens(turn, "thinking_tokens") or 0.0) + counted


def _cost(turn: RecordedTurn, prices: Mapping[str, Mapping[str, float]]) -> float | None:
    model = str(turn.response.get("model") or turn.request.get("model") or "")
    price = prices.get(model) or prices.get(_DATE.sub("", model))
    if price is None:
        return None
    dollars_a_million = sum((_tokens(turn, f"{sort}_tokens") or 0.0) * dollars for sort, dollars in price.items())
    return float(dollars_a_million) / 1e6


# The axis of wording: how many words of the responses stayed the same.


# What is no letter and no digit separates words; an underscore does too.
_WORDS = re.compile(r"[^\W_]+")


class ResponseText(_Axis):
    """The cosine of the words of two responses, rare words counting more; 1 for the same words."""

    name = "text"
    better: ClassVar[Literal["lower", "higher", "same"]] = "higher"

    def measure(self, sides: Sides) -> AxisValues:
        """Weigh each word once for all pairs; a pair costs what its own words cost."""
        documents = [(_count(old.text), _count(new.text)) for old, new in sides.pairs]
        frequency: Counter[str] = Counter()
        for pair in documents:
            for words in pair:
                frequency.update(words.keys())
        total = 2 * len(documents)
        weights = {word: log((total + 1) / (count + 1)) + 1 for word, count in frequency.items()}
        return AxisValues(
            baseline=(1.0,) * len(documents),
            candidate=tuple(_cosine(old, new, weights) for old, new in documents),
        )


def _count(text: str) -> Counter[str]:
    return Counter(_WORDS.findall(unicodedata.normalize("NFC", text).lower()))


def _cosine(old: Counter[str], new: Counter[str], weights: dict[str, float]) -> float:
    if old == new:
        return 1.0
    if not old or not new:
        return 0.0
    left, right = _weigh(old, weights), _weigh(new, weights)
    shared = sum(weight * right[word] for word, weight in left.items() if word in right)
    norms = sum(weight * weight for weight in left.values()) * sum(weight * weight for weight in right.values())
    return min(1.0, shared / sqrt(norms))


def _weigh(words: Counter[str], weights: dict[str, float]) -> dict[str, float]:
    return {word: (1 + log(count)) * weights[word] for word, count in words.items()}


# Axes about what was done: the tool calls of whole sessions, and how many turns there were.


class Trajectory(_Axis):
    """The edit distance between the sequences of tool calls, arguments included: 0 is the same, 1 nothing alike."""

    name = "trajectory"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "rate"

    def measure(self, sides: Sides) -> AxisValues:
        """Measure turn by turn, and as the headline over whole sessions.

        The median over turns hides one changed turn of three, and turns that one side lacks; the headline does
        not. A tool that the baseline never called is severe, however long the session around it is.
        """
        per_turn = [
            distance(_step_tokens([old]), _step_tokens([new]))
            for before, after in sides.sessions
            for old, new in zip(before.turns, after.turns, strict=False)
        ]
        edits = longest = 0
        for before, after in sides.sessions:
            old, new = _step_tokens(before.turns), _step_tokens(after.turns)
            edits += edit_distance(old, new)
            longest += max(len(old), len(new))
        was_called = {call.tool for before, _ in sides.sessions for turn in before.turns for call in turn.calls}
        is_called = {call.tool for _, after in sides.sessions for turn in after.turns for call in turn.calls}
        added, dropped = sorted(is_called - was_called), sorted(was_called - is_called)
        notes = [
            f"{word} {', '.join(map(repr, names))}" for word, names in (("new:", added), ("gone:", dropped)) if names
        ]
        return AxisValues(
            baseline=(0.0,) * len(per_turn),
            candidate=tuple(per_turn),
            headline=edits / longest if longest else 0.0,
            at_least="severe" if added else "none",
            flags=("new_tool",) * bool(added) + ("dropped_tool",) * bool(dropped),
            note="; ".join(notes),
        )


class Turns(_Axis):
    """How many turns the candidate has: dropped and extra ones count as shares of the longer session."""

    name = "turns"
    unit = "turns"
    statistic: ClassVar[Literal["median", "mean"]] = "mean"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "own"
    better: ClassVar[Literal["lower", "higher", "same"]] = "same"

    def measure(self, sides: Sides) -> AxisValues:
        """Count; a seventh of the turns more or less is how agents vary, a third is another session."""
        counts = [(len(before.turns), len(after.turns)) for before, after in sides.sessions]
        dropped = sum(max(0, old - new) for old, new in counts)
        extra = sum(max(0, new - old) for old, new in counts)
        share = (dropped + extra) / max(1, sum(map(max, counts)))
        empty = sum(old > 0 and new == 0 for old, new in counts)
        severity: Literal["none", "moderate", "severe"]
        severity = "severe" if share >= 0.30 or empty else "moderate" if share >= 0.15 else "none"
        return AxisValues(
            baseline=tuple(float(old) for old, _ in counts),
            candidate=tuple(float(new) for _, new in counts),
            at_least=severity,
            flags=("empty_candidate",) * bool(empty),
            note=f"{dropped} dropped, {extra} extra" if dropped or extra else "",
        )


def _step_tokens(turns: Sequence[RecordedTurn]) -> list[str]:
    return [call.token for turn in turns for call in turn.calls]


def edit_distance(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the least number of insertions, deletions and substitutions; memory is linear."""
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(old, new))


def distance(old: Sequence[str], new: Sequence[str]) -> float:
    """Return the edit distance as a share of the longer sequence; 0 when both are empty."""
    longest = max(len(old), len(new))
    if not longest or old == new:
        return 0.0
    return edit_distance(old, new) / longest


# Axes about conduct: refusals, how turns stop, and whether answers keep their form.


class Refusals(_Axis):
    """The share of turns in which the agent declines. More is worse, and so is less: it may now do what it must not."""

    name = "refusals"
    statistic: ClassVar[Literal["median", "mean"]] = "mean"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "rate"
    better: ClassVar[Literal["lower", "higher", "same"]] = "same"

    def measure(self, sides: Sides) -> AxisValues:
        """Count the turns that were refusals on each side."""
        return AxisValues(
            baseline=tuple(float(old.refused) for old, _ in sides.pairs),
            candidate=tuple(float(new.refused) for _, new in sides.pairs),
        )


class StopReasons(_Axis):
    """The share of turns that stop for another reason than they did."""

    name = "stop_reasons"
    statistic: ClassVar[Literal["median", "mean"]] = "mean"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "rate"

    def measure(self, sides: Sides) -> AxisValues:
        """Count the turns whose reason changed."""
        changed = tuple(float(old.stop_reason != new.stop_reason) for old, new in sides.pairs)
        return AxisValues(baseline=(0.0,) * len(changed), candidate=changed)


class Conformance(_Axis):
    """The share of structured answers that keep their form: JSON stays JSON, a tool keeps its arguments' names."""

    name = "conformance"
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
