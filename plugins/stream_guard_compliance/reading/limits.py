"""Reads limits: words, characters, calls, calls of one tool, failures, calls at a time."""

from __future__ import annotations

from typing import Final

from stream_guard_compliance.reading.actions import stems_of
from stream_guard_compliance.reading.clauses import NUMBER, Clause, read_number
from stream_guard_compliance.reading.values import Reading

_AT_MOST: Final = (
    r"\b(?:under|below|at most|no more than|not more than|more than|a? ?max(?:imum)?(?: of)?|within|up to"
    r"|exceed|exceeds"
    r"|exceeding|fewer than|less than|limit(?:ed)? (?:it |them |yourself |answers |replies |responses )?to"
    r"|only|over|longer than|shorter than)"
)
_LENGTH: Final = rf"{_AT_MOST} (?:the )?{NUMBER} (words?|characters?|chars?|sentences?|paragraphs?|tokens?|lines?)\b"
_LENGTH_AFTER: Final = (
    rf"{NUMBER}[ -](words?|characters?|chars?|sentences?) (?:or (?:less|fewer)|max(?:imum)?|limit|at most)"
)
_FAILURES: Final = rf"\b{NUMBER} (?:\w+ )?(?:failed|unsuccessful|incorrect|invalid|wrong|failures?|failing)\b"
_PARALLEL: Final = (
    r"\b(?:tool calls?|tools?|calls?|function calls?) at (?:a|the same) time\b|\b(?:parallel|concurrent"
    r"|simultaneous) (?:tool |function )?calls?\b|\bcalls? (?:\w+ )?in parallel\b"
)
_TOGETHER: Final = r"\b(?:parallel|concurrent|simultaneous|multiple|several|two|many)\b"
_TIMES: Final = (
    rf"{_AT_MOST} (?:{NUMBER} times?|(once|twice|thrice))\b|\b(?:be )?(?:called|used|invoked|run"
    rf"|call) (?:\w+ ){{0,3}}(?:only |just |exactly )?(once|twice)\b|\bonly (?:be )?(?:\w+ )?(once|twice)\b"
)
_CALLS: Final = (
    rf"{_AT_MOST} (?:make |use |call |a total of )?{NUMBER} (?:different |tool |function |api )?(?:calls?"
    rf"|tools?|invocations?)\b"
)
_CALLS_TO: Final = (
    rf"{_AT_MOST} (?:make )?{NUMBER} (?:calls?|invocations?|uses|requests|attempts|retries|\w+) (?:to|of|with"
    rf"|per|using)?\b"
)
_DEEDS: Final = (
    rf"\b(send|make|issue|create|post|place|book|open|write) (?:out )?{_AT_MOST[2:]} {NUMBER} (\w{{3,30}})\b"
)
_WINDOW: Final = r"\bper (?:second|minute|hour|day|week|month)\b|\bevery (?:second|minute|hour|day)\b|\ba day\b"
_UNITS: Final = {"w": "words", "c": "chars", "s": "sentences", "p": "paragraphs", "t": "tokens", "l": "lines"}


def read_limit(clause: Clause) -> Reading | None:  # noqa: PLR0911  # one for each thing that is counted
    """Return the limit that a sentence sets, or None."""
    window = clause.has(_WINDOW)
    length = clause.find(_LENGTH) or clause.find(_LENGTH_AFTER)
    if length is not None:
        return Reading("limit", (f"{_UNITS[length.group(2)[0]]}<={read_number(length.group(1))}",))
    failures = clause.find(_FAILURES)
    if failures is not None and clause.has(r"\b(?:stop|after|lock|end|abort|give up|quit|escalate)\b"):
        return Reading(
            "limit", (f"failures<={read_number(failures.group(1))}",), stems=stems_of(clause.low[failures.end() :])
        )
    if clause.has(_PARALLEL) and (clause.has(r"\b(?:one|single)\b") or (clause.negated() and clause.has(_TOGETHER))):
        return Reading("limit", ("parallel<=1",))
    if clause.tools:
        return _of_tools(clause, window)
    calls = clause.find(_CALLS)
    if calls is not None:
        per_part = clause.has(r"\bper (?:turn|message|reply|response|request|question|query|answer)\b")
        return Reading("limit", (f"calls<={read_number(calls.group(1))}",), window=window, per_part=per_part)
    times = clause.find(_TIMES)
    if times is not None and clause.has(r"\btools?\b"):
        return Reading("limit", (), stems=stems_of(clause.low[: times.start()]), over=_times(times.groups()))
    if times is not None and clause.has(r"\b(?:retry|retries|try again|attempt\w*)\b"):
        return Reading("limit", (f"retries<={_times(times.groups()):g}",))
    deeds = clause.find(_DEEDS)
    if deeds is not None:
        stems = stems_of(f"{deeds.group(1)} , {deeds.group(3)}")
        return Reading("limit", (), stems=stems, over=float(read_number(deeds.group(2))), window=window)
    return None


def _of_tools(clause: Clause, window: bool) -> Reading | None:
    times = clause.find(_TIMES)
    if times is not None:
        number = _times(times.groups())
    else:
        calls = clause.find(_CALLS_TO)
        if calls is None or clause.has(r"\b(?:before|after|first)\b"):
            return None
        number = read_number(calls.group(1))
    return Reading("limit", tuple(f"{tool}<={number:g}" for tool in clause.tools), window=window)


def _times(groups: tuple[str | None, ...]) -> float:
    return float(read_number(next(group for group in groups if group)))
