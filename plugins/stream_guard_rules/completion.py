"""Rules about whether there is an answer at all, and how long it took."""

from __future__ import annotations

from math import isnan
from typing import Final

import re2
from pydantic import Field

import stream_guard as sg
from stream_guard_rules.evidence import as_evidence

# What a reader sees: no separator, no control, and no mark that only formats, such as a zero-width space.
_VISIBLE: Final = r"[^\s\p{Z}\p{C}]"


def failure_of(turn: sg.Turn) -> str:
    """Return why the turn failed, or an empty text."""
    error = turn.response.get("error")
    if error:
        return as_evidence(error)
    return "the model or the agent failed" if turn.response.get("stop_reason") == "error" else ""


class MustCompleteState(sg.State):
    """Whether the last user message has no answer yet."""

    waiting: bool = False


class MustComplete(sg.Rule[sg.Params, MustCompleteState]):
    """Every response must come without an error, and every user message must get a response.

    A response has failed when its ``stop_reason`` is ``error`` or it carries an ``error``.
    """

    kind = "must_complete"
    state_limit = 16
    examples = (
        sg.Example(
            claim="a response that failed is a hit",
            params={},
            trace=[{"user": "hello"}, {"turn": None, "response": {"error": "HTTP 503"}, "stop": "error"}],
            hits=[1],
        ),
        sg.Example(
            claim="a message that nobody answers is a hit at the end",
            params={},
            trace=[{"turn": "hello"}, {"user": "are you there?"}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="an answer is silent, an empty one too",
            params={},
            trace=[{"user": "hello"}, {"turn": ""}, {"end": "closed"}],
            hits=[],
        ),
    )

    def on_user_message(self, _message: sg.UserMessage, state: MustCompleteState) -> None:
        """Wait for the answer."""
        state.waiting = True

    def on_turn(self, turn: sg.Turn, state: MustCompleteState) -> sg.Hit | sg.Unsure | None:
        """Look for an error; a turn that tells neither content nor stop reason may have failed."""
        state.waiting = False
        why = failure_of(turn)
        if why:
            return sg.Hit(f"the response failed: {why}", {"error": why})
        told = turn.captured and "content" in turn.response
        unknown = not told and turn.response.get("stop_reason") is None
        return sg.Unsure("unevaluable", "content and a stop_reason") if unknown else None

    def on_ungated(self, event: sg.Event, state: MustCompleteState) -> None:
        """Let a response outside the gate be the answer."""
        state.waiting = isinstance(event, sg.UserMessage)

    def on_session_end(self, _end: sg.SessionEnd, state: MustCompleteState) -> sg.Hit | None:
        """Fire when nobody answered the last message."""
        return sg.Hit("the session ended before the user had an answer") if state.waiting else None


class MustHaveText(sg.Rule[sg.Params, sg.NoState]):
    """Every response must have a text that a reader can see.

    White space and marks of no width are no text. A response that only calls tools is a hit too: gate the rule
    where responses may do that.
    """

    kind = "must_have_text"
    examples = (
        sg.Example(
            claim="white space is no text",
            params={},
            trace=[{"turn": " \n\t "}, {"turn": "\u00a0\u200b"}, {"turn": ""}],
            hits=[0, 1, 2],
        ),
        sg.Example(claim="one character is a text", params={}, trace=[{"turn": " . "}], hits=[]),
    )

    def __init__(self, params: sg.Params) -> None:
        super().__init__(params)
        self._visible = re2.compile(_VISIBLE)

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Look for a visible character."""
        text = turn.text
        begun = text.lstrip()
        # Nearly every text begins with a sign of ASCII that is visible.
        if begun and ("!" <= begun[0] <= "~" or self._visible.search(begun.encode("utf-8", "replace")) is not None):
            return None
        return sg.Hit("the response has no text", {"characters": len(text)})


class MaxLatencyParams(sg.Params):
    """Parameters of ``max_latency``."""

    max_ms: int = Field(gt=0, description="milliseconds that are still fine")


class MaxLatency(sg.Rule[MaxLatencyParams, sg.NoState]):
    """No response may take longer than ``max_ms`` milliseconds.

    The time is the response's ``latency_ms``. Where the source does not give it, the rule cannot judge.
    """

    kind = "max_latency"
    examples = (
        sg.Example(
            claim="a response that took longer is a hit",
            params={"max_ms": 1000},
            trace=[{"turn": "a", "response": {"latency_ms": 1000.4}}],
            hits=[0],
        ),
        sg.Example(
            claim="the limit itself is fine",
            params={"max_ms": 1000},
            trace=[{"turn": "a", "response": {"latency_ms": 1000}}],
            hits=[],
        ),
    )

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | sg.Unsure | None:
        """Compare the time with the limit."""
        taken = turn.response.get("latency_ms")
        if isinstance(taken, bool) or not isinstance(taken, int | float) or isnan(taken):
            return sg.Unsure("unevaluable", "latency_ms")
        if taken <= self.params.max_ms:
            return None
        evidence = {"latency_ms": taken, "max_ms": self.params.max_ms}
        return sg.Hit(
            f"the response took {_rounded(taken, self.params.max_ms)} ms, and {self.params.max_ms:,} are allowed",
            evidence,
        )

    def shortfall(self, event: sg.Event, _state: sg.NoState) -> sg.Shortfall | None:
        """How long it took."""
        taken = event.response.get("latency_ms") if isinstance(event, sg.Turn) else None
        if not isinstance(taken, int | float):
            return None
        return sg.Shortfall(f"{taken:,.10g} ms of {self.params.max_ms:,}", taken / (self.params.max_ms + 1))


def _rounded(taken: float, limit: int) -> str:
    """Return the milliseconds in as few digits as show that they are over the limit."""
    forms = (f"{taken:,.{digits}f}".removesuffix(".0") for digits in (1, 2, 3))
    return next((shown for shown in forms if float(shown.replace(",", "")) > limit), f"{taken:,.10g}")
