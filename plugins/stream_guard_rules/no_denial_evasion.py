"""No call tries in another way what a gate denied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Literal
from zlib import crc32

import re2
from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.fingerprints import decoded_forms
from stream_guard_rules.shared.json_texts import texts_in

_MOST_ATTEMPTS: Final = 16
_MOST_DENIED: Final = 8
_MOST_WORDS: Final = 48
_MOST_TEXT: Final = 4000  # characters of one text that are looked at
_MOST_TEXTS: Final = 64  # of one call that are decoded
_WORD: Final = re2.compile(r"[\p{L}\p{N}]+")


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


class NoDenialEvasion(sg.Rule[NoDenialEvasionParams, NoDenialEvasionState]):
    """What a gate denied must not be tried in another way.

    Arguments are compared by their words, wherever they stand in them and whatever the case; of a call, also by what
    it says in base64, hexadecimal or URL encoding. A denial is a decision to block, or a blocked result. The latest 8
    denials are remembered, each with 48 words.
    """

    kind = "no_denial_evasion"
    state_limit = 8192
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
        forms: list[list[int]] = []
        for denied in reversed(state.denied):
            same_tool = denied.tool == call.tool[:64]
            if (same_tool and self.params.tools == "other") or not 0 <= now - denied.time < self.params.within_seconds:
                continue
            forms = forms or [words, *_decoded_words(call.args)]
            overlap = max(_overlap(form, denied.words) for form in forms)
            if overlap >= self.params.min_overlap:
                evidence = {"tool": call.tool, "denied": denied.tool, "overlap": round(overlap, 3)}
                return sg.Hit(f"{call.tool} tries what was denied to {denied.tool}", evidence)
        return None

    def on_decision(self, decision: sg.GateDecision, state: NoDenialEvasionState) -> None:
        """Remember what was blocked."""
        if decision.action in {"block", "terminate_session"}:
            _deny(decision.attempt, decision.time or 0.0, state)

    def on_tool_result(self, result: sg.ToolResult, state: NoDenialEvasionState) -> None:
        """Remember what was blocked."""
        if result.status == "blocked":
            _deny(result.attempt, result.time or 0.0, state)

    def on_ungated(self, event: sg.Event, state: NoDenialEvasionState) -> None:
        """Remember denials outside the gate too."""
        if isinstance(event, sg.ToolCall):
            attempt = TriedCall(event.attempt, event.tool[:64], event.time or 0.0, _words(event.args))
            state.recent = [*state.recent[1 - _MOST_ATTEMPTS :], attempt]
        elif isinstance(event, sg.GateDecision):
            self.on_decision(event, state)
        elif isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)


def _deny(attempt: int, now: float, state: NoDenialEvasionState) -> None:
    found = next((item for item in state.recent if item.attempt == attempt), None)
    if found is not None and all(item.attempt != attempt for item in state.denied):
        found.time = now
        state.denied = [*state.denied[1 - _MOST_DENIED :], found]


def _words(value: sg.Json) -> list[int]:
    """Return the words of all texts and numbers in a value as checksums, each once."""
    found: dict[int, None] = {}
    waiting = [value]
    for item in waiting:  # grows while it is walked
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif item is not None and len(found) < _MOST_WORDS:
            text = str(item)[:_MOST_TEXT].lower().encode("utf-8", "replace").decode()
            found |= dict.fromkeys(crc32(word.group().encode()) for word in _WORD.finditer(text))
    return list(found)[:_MOST_WORDS]


def _decoded_words(args: sg.Json) -> Iterator[list[int]]:
    """Yield the words of each text that stands encoded in the arguments: what is around it is how it is decoded."""
    for text in islice(texts_in(args), _MOST_TEXTS):
        yield from map(_words, decoded_forms(text[:_MOST_TEXT])[1:])


def _overlap(one: Sequence[int], two: Sequence[int]) -> float:
    both = set(one) | set(two)
    return len(set(one) & set(two)) / len(both) if both else 0.0
