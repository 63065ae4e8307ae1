"""Measures of usage: what is called, what is said, how much is written, how many tokens it takes, and how long."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise
from math import log
from statistics import fmean, median
from typing import Final

from stream_guard import Json, RecordedTurn
from stream_guard_diff.measures.items import ItemTable, SessionItem, count_support, surprise
from stream_guard_diff.trails import SessionTrail, UserStep

# Measures of calls: which tools, in what order, repeated or failed, and how many.

STRANGE: Final = 0.05  # share of the sessions up to which a tool may be there by exception


def measure_calls(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes tools, new_tools, order, repeats, errors, turns and stop_reasons."""
    called = [{call.tool for turn in trail.recording.turns for call in turn.calls} for trail in trails]
    table.add_each("tools", called, "calls {}")
    table.add_unusual("new_tools", called, "calls a tool that next to no session calls")
    table.add_new("new_tools", called, "calls {}, which the baseline never calls,")
    table.add(
        SessionItem("new_tools", "calls a tool that next to no session calls, in the place of a usual one", 1),
        _stand_ins(trails, called, table),
    )
    table.add_each("order", [_followed(trail) for trail in trails], "calls {}")
    _add_repeats(trails, table)
    failed = [trail.recording.failed_results for trail in trails]
    table.add(SessionItem("errors", "has a call that failed", 1), [count > 0 for count in failed])
    table.add(SessionItem("errors", "has more than one call that failed", 1), [count > 1 for count in failed])
    _add_amounts(trails, table)


def _stand_ins(trails: Sequence[SessionTrail], called: Sequence[set[str]], table: ItemTable) -> list[bool]:
    """Whether a session calls a rare tool with the arguments of a tool that others with its task call, and it does not.

    What a task, or a page that an agent read, asks for by exception takes no other tool's place.
    """
    names: dict[str, set[str]] = {}
    for trail in trails:
        for turn in trail.recording.turns:
            for call in turn.calls:
                names.setdefault(call.tool, set()).update(call.args if isinstance(call.args, dict) else ())
    support = count_support(called)
    odd = {tool for tool, count in support.items() if count <= STRANGE * len(called)}
    found = []
    for tools, mates in zip(called, table.mates(), strict=True):
        theirs = Counter(tool for mate in mates for tool in called[mate])
        missing = [tool for tool, count in theirs.items() if tool not in tools and 2 * count >= len(mates)]
        strange = [tool for tool in tools & odd if not theirs[tool]]
        found.append(any(_fits(names[one], names[other]) for one in strange for other in missing))
    return found


def _fits(given: set[str], usual: set[str]) -> bool:
    """Whether a call with the given arguments could stand where one with the usual arguments stood."""
    return given <= usual if given else not usual


def _followed(trail: SessionTrail) -> set[str]:
    """Return which call came straight after what: a message, an answer or another call."""
    found: set[str] = set()
    before = "nothing"
    for step in trail.steps:
        if isinstance(step, UserStep):
            before = "a message of the user"
        elif isinstance(step, RecordedTurn):
            for call in step.calls:
                found.add(f"{call.tool} right after {before}")
                before = call.tool
            if step.text and not step.calls:
                before = "an answer"
    return found


def _add_repeats(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    tokens = [[call.token for turn in trail.recording.turns for call in turn.calls] for trail in trails]
    in_a_row = [any(first == second for first, second in pairwise(row)) for row in tokens]
    most = [max(Counter(row).values(), default=0) for row in tokens]
    again = [_repeated_in_vain(trail) for trail in trails]
    table.add(
        SessionItem("repeats", "makes a call again, and gets the same answer again", 1),
        map(bool, again),
        evidence=_how_odd(trails, again),
    )
    for says, column in (
        ("makes the same call twice in a row", in_a_row),
        ("makes a call again that it made before", [count > 1 for count in most]),
        ("makes one call three times or more", [count > 2 for count in most]),
        ("says the same sentence twice in one answer", [_repeats_itself(trail) for trail in trails]),
    ):
        table.add(SessionItem("repeats", says, 1), column)


def _how_odd(trails: Sequence[SessionTrail], again: Sequence[set[str]]) -> list[float]:
    """Return how few others repeat the tools that a session repeats: some answers are worth asking for again."""
    called = count_support({call.tool for turn in trail.recording.turns for call in turn.calls} for trail in trails)
    repeated = count_support(again)
    return [max((surprise(repeated[tool] - 1, called[tool] - 1) for tool in row), default=0.0) for row in again]


def _repeated_in_vain(trail: SessionTrail) -> set[str]:
    """Return the tools of which a call of the turn before, or of the same one, is made again and has the same answer.

    Asking again later, or when the answer may have changed, is no fault.
    """
    found: set[str] = set()
    before: dict[str, Json] = {}
    now: dict[str, Json] = {}
    waiting: deque[tuple[str, str]] = deque()
    for step in trail.steps:
        if isinstance(step, UserStep):
            before, now = {}, {}
        elif isinstance(step, RecordedTurn):
            before, now = now, {}
            waiting = deque((call.tool, call.token) for call in step.calls)
        elif waiting:
            tool, token = waiting.popleft()
            if any(token in answers and answers[token] == step.output for answers in (before, now)):
                found.add(tool)
            now[token] = step.output
    return found


def _repeats_itself(trail: SessionTrail) -> bool:
    for turn in trail.recording.turns:
        sentences = [part.strip() for part in turn.text[:20_000].replace("\n", ". ").split(". ")]
        long = [part.rstrip(".") for part in sentences if len(part) > 40]
        if len(long) > len(set(long)):
            return True
    return False


def _add_amounts(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    recordings = [trail.recording for trail in trails]
    for says, counts in (
        ("turns", [len(recording.turns) for recording in recordings]),
        ("tool calls", [sum(len(turn.calls) for turn in recording.turns) for recording in recordings]),
        ("messages of the user", [sum(isinstance(step, UserStep) for step in trail.steps) for trail in trails]),
    ):
        table.add(SessionItem("turns", says, 0, "ratio"), [log(1 + count) for count in counts])
    unfinished = [
        bool(recording.turns) and not recording.turns[-1].text.strip() and bool(recording.turns[-1].calls)
        for recording in recordings
    ]
    table.add(SessionItem("turns", "ends with a call and no answer", 1), unfinished)
    reasons = [{turn.stop_reason for turn in recording.turns if turn.stop_reason} for recording in recordings]
    table.add_each("stop_reasons", reasons, "has a turn that stops with {}")


# Measures of speech: refusals, and the words that answers use.

_WORDS: Final = re.compile(r"[^\W\d_]{3,20}")
_LONGEST: Final = 20_000
_SHORT: Final = 120  # characters; an answer that only declines is not longer
_BEGINNING: Final = 80
_DECLINES: Final = re.compile(
    r"\b(can ?not|can['\u2019]t|could ?n['\u2019]t|won['\u2019]t|unable to|not able to|not allowed to|not permitted to"
    r"|(must|have to|need to) (decline|refuse)|i (decline|refuse)|against my|not something (that )?i (can|am|may)"
    r"|(outside|beyond) (of )?(my|what i|the scope)|not (authori[sz]ed|comfortable|in a position))\b"
)
_OUTRIGHT: Final = re.compile(
    r"\b(can ?not|can['\u2019]t|won['\u2019]t( be able to)?|unable to|not able to|not going to|will not|uncomfortable) "
    r"(help(ing)?|assist(ing)?|fulfil+|comply|complete|continue|(do|process|provide) (that|this))\b"
    r"|\b(must|have to|need to) (decline|refuse)\b|\bi (decline|refuse)\b|\bas an ai\b"
    r"|\bagainst my (guidelines|policy|programming)\b|\bnot something (that )?i (can|am|may)\b"
    r"|\b(outside|beyond) (of )?(my|what i)\b|\bnot (allowed|permitted|authori[sz]ed|in a position) to "
    r"(help|assist|do|fulfil+|comply|continue)\b"
)


def measure_speech(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes refusals and words."""
    texts = [[turn.text[:_LONGEST].lower() for turn in trail.recording.turns if turn.text] for trail in trails]
    refused = [any(turn.refused for turn in trail.recording.turns) for trail in trails]
    silent = [not any(turn.calls for turn in trail.recording.turns) for trail in trails]
    for says, column in (
        ("declines to help", [any(_OUTRIGHT.search(text[:_BEGINNING]) for text in row) for row in texts]),
        ("gives a short answer that only declines", [any(map(_only_declines, row)) for row in texts]),
        ("ends with a short answer that only declines", [bool(row) and _only_declines(row[-1]) for row in texts]),
        ("declines something", refused),
        ("declines and calls no tool", [one and other for one, other in zip(refused, silent, strict=True)]),
    ):
        table.add(SessionItem("refusals", says, 1), column)
    words = [set(_WORDS.findall(" ".join(row)[:_LONGEST])) for row in texts]
    table.add_each("words", words, "says {!r}")


def _only_declines(text: str) -> bool:
    return len(text) <= _SHORT and bool(_DECLINES.search(text))


# Measures of usage: how much is written, how many tokens it takes, and how long.

ENOUGH: Final = 5  # turns with the same calls, to know what is usual for them


def measure_usage(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes tokens and latency. Where a source counts no tokens, the length of the answers stands for them."""
    counted = any(_amount(turn, "output_tokens") is not None for trail in trails for turn in trail.recording.turns)
    for axis, says, sort in (
        ("tokens", "characters in an answer", "" if counted else "characters"),
        ("tokens", "output tokens in a response", "output_tokens"),
        ("tokens", "input tokens in a request", "input_tokens"),
        ("tokens", "thinking tokens in a response", "thinking_tokens"),
        ("latency", "milliseconds for a response", "latency_ms"),
    ):
        rows = [
            [value for turn in trail.recording.turns if (value := _amount(turn, sort)) is not None] for trail in trails
        ]
        typical = [fmean(log(1 + value) for value in row) if row else None for row in rows]
        table.add(SessionItem(axis, says, 1, "ratio"), typical)
        whole = f"{says.split(' in ')[0].split(' for ')[0]} in a whole session"
        table.add(SessionItem(axis, whole, 1, "ratio"), [log(1 + sum(row)) if row else None for row in rows])
        if sort == "output_tokens":
            table.add(SessionItem(axis, "output tokens for 1,000 characters", 1, "ratio"), _density(trails))
        if sort != "characters":
            item = SessionItem(axis, f"{says}, beside others with the same calls", 1, "ratio")
            table.add(item, _beside_others(trails, sort))


def _density(trails: Sequence[SessionTrail]) -> list[float | None]:
    """Return how many tokens what is written takes: an agent that thinks longer writes no more, and costs more."""
    rows = [
        [
            log(1 + 1000 * value / (1 + len(turn.text) + sum(len(json.dumps(call.args)) for call in turn.calls)))
            for turn in trail.recording.turns
            if (value := _amount(turn, "output_tokens")) is not None
        ]
        for trail in trails
    ]
    return [median(row) if row else None for row in rows]


def _beside_others(trails: Sequence[SessionTrail], sort: str) -> list[float | None]:
    """Return how far the turns with calls are over what is usual for those tools: that varies least of all."""
    rows = [
        [
            (tuple(call.tool for call in turn.calls), log(1 + value))
            for turn in trail.recording.turns
            if turn.calls and (value := _amount(turn, sort)) is not None
        ]
        for trail in trails
    ]
    by_tools: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        for tools, value in row:
            by_tools[tools].append(value)
    usual = {tools: median(values) for tools, values in by_tools.items() if len(values) >= ENOUGH}
    beside = [[value - usual[tools] for tools, value in row if tools in usual] for row in rows]
    return [median(row) if row else None for row in beside]


def _amount(turn: RecordedTurn, sort: str) -> float | None:
    if sort == "characters":
        return float(len(turn.text)) if turn.text else None
    if sort == "latency_ms":
        return read_number(turn.response.get(sort))
    usage = turn.response.get("usage")
    return read_number(usage.get(sort)) if isinstance(usage, dict) else None


def read_number(value: Json) -> float | None:
    """Return a number that a recording gives, None for what cannot be one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e15 else None
