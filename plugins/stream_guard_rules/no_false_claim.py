"""No response claims that something was done that no tool has done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import re2
from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.events import awaits_calls
from stream_guard_rules.shared.evidence import cut

# One of these among the few words before the verb, and it is not claimed that something was done.
_NO_CLAIM: Final = re2.compile(
    r"(?i)\b(?:not|never|unable|cannot|failed|will|would|could|should|shall|can|may|might|if|once|when|until|before"
    r"|to|need|want|let)\b|n['\x{2019}]t\b"
)
_WORDS_BEFORE: Final = 5
_SENTENCE: Final = re2.compile(r"[^.!?\n]*[.!?\n]*")


class NoFalseClaimParams(sg.Params):
    """Parameters of ``no_false_claim``."""

    claim: sg.Regex = Field(description="a regular expression (RE2) for the words that say it was done")
    tool: sg.ToolPattern = Field(description="the tools that do it: one of them must have succeeded before")


class NoFalseClaimState(sg.State):
    """Whether it was done, the turn whose claim waits for the result of its own call, and the latest attempt."""

    done: bool = False
    waiting: int = -1
    attempt: int = -1
    claim: str = ""  # of a turn that announced calls without listing them, until one comes that may do it


class NoFalseClaim(sg.Rule[NoFalseClaimParams, NoFalseClaimState]):
    """A response must not say that something was done that no tool has done.

    Sentences that ask, deny or speak of the future claim nothing; that is told by English words. A response that
    makes the call itself is judged by its result.
    """

    kind = "no_false_claim"
    examples = (
        sg.Example(
            claim="a claim without the call is a hit",
            params={"claim": "(?i)\\b(sent|emailed)\\b", "tool": "send_email"},
            trace=[{"turn": "I have sent the e-mail."}],
            hits=[0],
        ),
        sg.Example(
            claim="a call that failed did nothing",
            params={"claim": "(?i)\\b(sent|emailed)\\b", "tool": "send_email"},
            trace=[
                {"call": "send_email", "id": "a"},
                {"result": "send_email", "id": "a", "status": "error"},
                {"turn": "The e-mail was sent."},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="what was done may be said, and a question claims nothing",
            params={"claim": "(?i)\\b(sent|emailed)\\b", "tool": "send_email"},
            trace=[
                {"turn": "Shall it be sent now? I have not sent it yet."},
                {"call": "send_email", "id": "a"},
                {"result": "send_email", "id": "a"},
                {"turn": "I have sent it."},
            ],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools that do it."""
        return self.params.tool

    def texts(self) -> Sequence[sg.TextPattern]:
        """The words of the claim."""
        return [sg.TextPattern("response", self.params.claim.pattern)]

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, state: NoFalseClaimState) -> sg.Verdict:
        """Judge the claim by what was done before."""
        if state.done:
            return None
        claim = self._claim(turn.text)
        if not claim:
            return None
        is_announced = awaits_calls(turn)
        if is_announced or any(map(self.params.tool.matches, turn.tools)):
            state.waiting, state.claim = turn.index, cut(claim.strip()) if is_announced else ""
            return None
        return self._hit(claim)

    def on_tool_call(self, call: sg.ToolCall, state: NoFalseClaimState) -> sg.Verdict:
        """Note the attempt: it may come before the turn that makes it."""
        if state.done:
            return None
        state.attempt = call.attempt
        if call.index == state.waiting:
            state.claim = ""
        return None

    def on_tool_result(self, result: sg.ToolResult, state: NoFalseClaimState) -> sg.Verdict:
        """Note that it was done, or that a claim beside the call was false."""
        if result.status == "ok":
            state.done = True
            return None
        if state.waiting < 0 or (result.index != state.waiting and result.attempt != state.attempt):
            return None
        state.waiting = -1
        return self._hit(f"the call of {result.tool} did not succeed")

    def on_ungated(self, event: sg.Event, state: NoFalseClaimState) -> None:
        """Note what was done outside the gate."""
        if isinstance(event, sg.ToolResult) and event.status == "ok":
            state.done = True

    def on_session_end(self, _end: sg.SessionEnd, state: NoFalseClaimState) -> sg.Hit | None:
        """Fire for a claim whose announced call never came."""
        return self._hit(state.claim) if state.claim and not state.done else None

    def _claim(self, text: str) -> str:
        """Return the first sentence that claims it; empty where none does."""
        plain = text.encode("utf-8", "replace").decode()
        sentences = (match.group() for match in _SENTENCE.finditer(plain))
        return next((sentence for sentence in sentences if self._claims(sentence)), "")

    def _claims(self, sentence: str) -> bool:
        claim_words = self.params.claim.search(sentence)
        if claim_words is None or sentence.rstrip().endswith("?"):
            return False
        before = sentence.partition(claim_words)[0].split()[-_WORDS_BEFORE:]
        return _NO_CLAIM.search(" ".join(before)) is None

    def _hit(self, claim: str) -> sg.Hit:
        what = self.params.tool.text
        return sg.Hit(f"the response says it was done, and {what} has not succeeded", {"claim": cut(claim.strip())})
