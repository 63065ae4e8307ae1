"""No call tries in another way what a gate denied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from typing import Final, Literal
from zlib import crc32

import re2
from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.fingerprints import MOST_TEXT, decoded_forms, is_read_whole
from stream_guard_rules.shared.json_values import texts_in
from stream_guard_rules.shared.lost_memory import FORGOTTEN, UNREAD

_MOST_ATTEMPTS: Final = 16
_MOST_DENIED: Final = 32
_MOST_WORDS: Final = 48
_MOST_TEXTS: Final = 64  # of one call that are decoded
_WORD: Final = re2.compile(r"[\p{L}\p{N}]+")
_LETTERS: Final = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))


class TriedCall(sg.State):
    """One attempt: its number, its tool, when it came and the words of its arguments."""

    attempt: int
    tool: str
    time: float
    words: list[int]


class NoDenialEvasionParams(sg.Params):
    """Parameters of ``no_denial_evasion``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools that are looked at: a name, a glob, or a list"
    )
    within_seconds: sg.Duration = Field(default=120.0, description="how long a denial is remembered")
    min_overlap: float = Field(
        default=0.6,
        gt=0,
        le=1,
        description="words that both arguments have, as a share of the words of either, that make it the same intent",
    )
    tools: Literal["other", "any"] = Field(
        default="other", description="what counts: the same intent with another tool only, or with the same tool too"
    )


class NoDenialEvasionState(sg.State):
    """The latest attempts, and those that a gate denied."""

    recent: list[TriedCall] = []
    denied: list[TriedCall] = []
    lost: float = -inf  # the time of the latest denial that was forgotten


class NoDenialEvasion(sg.Rule[NoDenialEvasionParams, NoDenialEvasionState]):
    """What a gate denied must not be tried in another way.

    Arguments are compared by their words, wherever they stand in them and whatever the case; of a call, also by what
    it says in base64, hexadecimal or URL encoding. A denial is a decision to block, or a blocked result. The latest 32
    denials are remembered, each with 48 of its words, the same ones in any order; of each text the first 200,000
    characters are looked at. Beyond that, a call in which nothing is found could not be judged, as long as the denial
    would be remembered.
    """

    kind = "no_denial_evasion"
    state_limit = 24576
    examples = (
        sg.Example(
            claim="the same intent with another tool is a hit",
            params={},
            trace=[
                {"call": "read_file", "args": {"path": "/etc/shadow"}, "id": "a", "at": 0},
                {"decision": "block", "id": "a", "at": 0},
                {"call": "shell", "args": {"run": "cat /etc/shadow"}, "at": 5},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="something else is fine, and so is a denial long ago",
            params={},
            trace=[
                {"call": "read_file", "args": {"path": "/etc/shadow"}, "id": "a", "at": 0},
                {"result": "read_file", "id": "a", "status": "blocked", "at": 0},
                {"call": "shell", "args": {"run": "ls /tmp"}, "at": 5},
                {"call": "shell", "args": {"run": "cat /etc/shadow"}, "at": 120},
            ],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools that are looked at."""
        return self.params.tool

    def needs(self) -> frozenset[sg.Need]:
        """Arguments and a clock."""
        return frozenset(("content", "clock"))

    def on_tool_call(self, call: sg.ToolCall, state: NoDenialEvasionState) -> sg.Verdict:
        """Compare the attempt with what was denied."""
        now = call.time or 0.0
        words = _words(call.args)
        state.recent = [*state.recent[1 - _MOST_ATTEMPTS :], TriedCall(call.attempt, call.tool[:64], now, words)]
        if call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        span = self.params.within_seconds
        forms: list[list[int]] = []
        for denied in reversed(state.denied):
            same_tool = denied.tool == call.tool[:64]
            if (same_tool and self.params.tools == "other") or not 0 <= now - denied.time < span:
                continue
            forms = forms or [words, *_decoded_words(call.args)]
            overlap = max(_overlap(form, denied.words) for form in forms)
            if overlap >= self.params.min_overlap:
                evidence = {"tool": call.tool, "denied": denied.tool, "overlap": round(overlap, 3)}
                return sg.Hit(f"{call.tool} tries what was denied to {denied.tool}", evidence)
        if 0 <= now - state.lost < span:
            return FORGOTTEN
        return None if not forms or _is_read_whole(call.args) else UNREAD

    def on_decision(self, decision: sg.GateDecision, state: NoDenialEvasionState) -> None:
        """Remember what was blocked."""
        if decision.action in {"block", "terminate_session"}:
            self._deny(decision, state)

    def on_tool_result(self, result: sg.ToolResult, state: NoDenialEvasionState) -> None:
        """Remember what was blocked."""
        if result.status == "blocked":
            self._deny(result, state)

    def _deny(self, denial: sg.GateDecision | sg.ToolResult, state: NoDenialEvasionState) -> None:
        now, attempt = denial.time or 0.0, denial.attempt
        found = next((item for item in state.recent if item.attempt == attempt), None)
        if found is None and denial.args is not None:  # it was tried too long ago
            found = TriedCall(attempt, denial.tool[:64], now, _words(denial.args))
        if found is None or any(item.attempt == attempt for item in state.denied):
            return
        found.time = now
        others = [item for item in state.denied if (item.tool, item.words) != (found.tool, found.words)]
        if len(others) >= _MOST_DENIED:
            state.lost = max(state.lost, others[0].time)
        state.denied = [*others[1 - _MOST_DENIED :], found]

    def on_ungated(self, event: sg.Event, state: NoDenialEvasionState) -> None:
        """Remember denials outside the gate too."""
        if isinstance(event, sg.ToolCall):
            attempt = TriedCall(event.attempt, event.tool[:64], event.time or 0.0, _words(event.args))
            state.recent = [*state.recent[1 - _MOST_ATTEMPTS :], attempt]
        elif isinstance(event, sg.GateDecision):
            self.on_decision(event, state)
        elif isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)


def _words(value: sg.Json) -> list[int]:
    """Return the words of all texts and numbers in a value as checksums, each once.

    Of many, those with the lowest: which these are does not depend on where the words stand.
    """
    found: set[int] = set()
    for text in texts_in(value):
        data = text[:MOST_TEXT].lower().encode("utf-8", "replace")
        if data.isascii():
            words = set(data.translate(_LETTERS).split())  # the same, without an object for each
        else:
            words = {word.group().encode() for word in _WORD.finditer(data.decode())}
        found.update(map(crc32, words))
    return sorted(found)[:_MOST_WORDS]


def _decoded_words(args: sg.Json) -> Iterator[list[int]]:
    """Yield the words of each text that stands encoded in the arguments: what is around it is how it is decoded."""
    for text in islice(texts_in(args), _MOST_TEXTS):
        yield from map(_words, decoded_forms(text)[1:])


def _is_read_whole(args: sg.Json) -> bool:
    texts = list(texts_in(args))
    return len(texts) <= _MOST_TEXTS and all(is_read_whole(text, decoded_forms(text)) for text in texts)


def _overlap(one: Sequence[int], two: Sequence[int]) -> float:
    """Return the words that both have, as a share; of many, as a share of the lowest of both together."""
    both = sorted({*one, *two})[:_MOST_WORDS] if max(len(one), len(two)) >= _MOST_WORDS else {*one, *two}
    return len({*one}.intersection(two).intersection(both)) / len(both) if both else 0.0
