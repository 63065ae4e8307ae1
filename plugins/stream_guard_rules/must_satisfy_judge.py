"""What happens keeps a rule that is written in words; a judge is asked where a condition holds."""

from __future__ import annotations

import json
from typing import Final, Literal

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut

# Events as lines of an excerpt: JSON in ASCII, short, without secrets. What an agent wrote stays inside its string.

_SHORTEST: Final = 20  # characters of a text, before an event is left out


def line_of(event: sg.Event, longest: int, *, is_asked: bool = False) -> str:
    """Return an event as one line of at most ``longest`` characters; its texts are cut until it fits."""
    kind = event.__struct_config__.tag
    asked = {"asked": True} if is_asked else {}
    for text in (longest, longest // 4, _SHORTEST):
        try:
            line = json.dumps({"event": kind, **_content(event, text), **asked}, allow_nan=False)
        except ValueError:  # a number that JSON does not have, from a caller in this process
            break
        if len(line) <= longest:
            return line
    return json.dumps({"event": kind, "content": "cannot be shown in short", **asked})


def _content(event: sg.Event, longest: int) -> dict[str, sg.Json]:
    """Return what is shown of an event: neither its ids nor its time, so that the same question is asked once."""
    shown: dict[str, sg.Json] = {}
    if isinstance(event, sg.ToolCall):
        shown = {"tool": sg.redact_text(event.tool, longest), "args": sg.redact(event.args, longest)}
    elif isinstance(event, sg.ToolResult):
        output = sg.redact(event.output, longest)
        shown = {"tool": sg.redact_text(event.tool, longest), "status": event.status, "output": output}
    elif isinstance(event, sg.UserMessage | sg.Turn):
        shown = {"text": sg.redact_text(event.text, longest)}
    return shown if event.captured else {**shown, "content": "not captured"}


_MOST_SHOWN: Final = 20
_NO_CONTENT: Final = sg.Unsure("unevaluable", "content")


class MustSatisfyJudgeParams(sg.Params):
    """Parameters of ``must_satisfy_judge``."""

    rule: str = Field(min_length=1, max_length=2000, description="the rule in words, as a person would be told it")
    at: Literal["tool_call", "tool_result", "response"] = Field(
        default="tool_call", description="the events at which a judge is asked"
    )
    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="of calls and results: the tools; a name, a glob, or a list"
    )
    pattern: sg.Regex | None = Field(
        default=None, description="of responses: ask only where this regular expression (RE2) matches"
    )
    last: int = Field(default=6, ge=0, le=_MOST_SHOWN, description="events before it that the judge is shown")
    max_characters: int = Field(default=4200, ge=2400, le=12_000, description="how long the excerpt may be in all")
    unanswered: Literal["count", "alert"] = Field(
        default="count", description="without an answer: only count that it could not be judged, or alert"
    )
    calls_per_day: int = Field(default=100, ge=0, description="questions of this rule in a day of UTC")
    dollars_per_day: float | None = Field(default=None, ge=0, description="what they may cost; unset: no bound")


class ExcerptLine(sg.State):
    """An event that the judge may be shown: its line, and the attempt that it is of."""

    attempt: int
    line: str


class MustSatisfyJudgeState(sg.State):
    """The latest events, as the judge would be shown them: short, and without secrets."""

    shown: list[ExcerptLine] = []


class MustSatisfyJudge(sg.Rule[MustSatisfyJudgeParams, MustSatisfyJudgeState]):
    """What happens must keep a rule in words; a judge, which is a model, is asked whether it does.

    It is asked at events of one sort, and only behind the rule's own condition (`when`, `tool`, `pattern`): what a
    plain rule can decide, a plain rule decides. The judge is shown that event and the few before it, cut and without
    secrets; attempts that a gate refused are left out. The finding stands if the answer on record says that the rule is
    broken. Until there is one, a rule that stops cannot judge.
    """

    kind = "must_satisfy_judge"
    asks = True
    state_limit = 16_384
    examples = (
        sg.Example(
            claim="a call that a judge is to look at is told of where it must not go unanswered",
            params={"rule": "Refunds need a reason.", "tool": "refund", "unanswered": "alert"},
            trace=[{"user": "my money back"}, {"call": "refund", "args": {"amount": 20}}],
            hits=[1],
        ),
        sg.Example(
            claim="nobody is asked about other tools",
            params={"rule": "Refunds need a reason.", "tool": "refund", "unanswered": "alert"},
            trace=[{"user": "where is my order?"}, {"call": "get_order", "args": {"id": 7}}],
            hits=[],
        ),
    )

    def judges_responses(self) -> bool:
        """Whether the judge is asked about responses; else it may be shown them."""
        return self.params.at == "response"

    def on_user_message(self, message: sg.UserMessage, state: MustSatisfyJudgeState) -> None:
        """Remember what was said."""
        self._remember(message, state)

    def on_turn(self, turn: sg.Turn, state: MustSatisfyJudgeState) -> sg.Verdict:
        """Ask about a response, where responses are asked about."""
        return self._look(turn, state, is_asked=self.params.at == "response" and self._matches(turn))

    def on_tool_call(self, call: sg.ToolCall, state: MustSatisfyJudgeState) -> sg.Verdict:
        """Ask about an attempt, where attempts are asked about."""
        is_asked = self.params.at == "tool_call" and self.params.tool.matches(call.tool)
        return self._look(call, state, is_asked=is_asked)

    def on_tool_result(self, result: sg.ToolResult, state: MustSatisfyJudgeState) -> sg.Verdict:
        """Ask about a result, where results are asked about; what was blocked did not happen."""
        if result.status == "blocked":
            self._leave_out(result.attempt, state)
            return None
        is_asked = self.params.at == "tool_result" and self.params.tool.matches(result.tool)
        return self._look(result, state, is_asked=is_asked)

    def on_decision(self, decision: sg.GateDecision, state: MustSatisfyJudgeState) -> None:
        """Leave out what a gate refused: asked again, it is the same question."""
        if decision.action != "allow":
            self._leave_out(decision.attempt, state)

    def on_ungated(self, event: sg.Event, state: MustSatisfyJudgeState) -> None:
        """Remember what is outside the gate: nobody is asked about it, and it may be shown."""
        if isinstance(event, sg.GateDecision):
            self.on_decision(event, state)
        elif isinstance(event, sg.ToolResult) and event.status == "blocked":
            self._leave_out(event.attempt, state)
        else:
            self._remember(event, state)

    def _matches(self, turn: sg.Turn) -> bool:
        pattern = self.params.pattern
        return pattern is None or not turn.captured or pattern.search(turn.text) is not None

    def _look(self, event: sg.Event, state: MustSatisfyJudgeState, *, is_asked: bool) -> sg.Verdict:
        inquiry = self._inquiry(event, state) if is_asked and event.captured else None
        self._remember(event, state)
        if inquiry is not None:
            return sg.Hit(cut(self.params.rule), {"event": event.__struct_config__.tag}, inquiry=inquiry)
        return _NO_CONTENT if is_asked else None

    def _inquiry(self, event: sg.Event, state: MustSatisfyJudgeState) -> sg.Inquiry:
        params = self.params
        last = line_of(event, self._longest, is_asked=True)
        return sg.Inquiry(
            words=params.rule,
            excerpt=(*(shown.line for shown in state.shown), last),
            tells_unanswered=params.unanswered == "alert",
            calls_per_day=params.calls_per_day,
            dollars_per_day=params.dollars_per_day,
        )

    @property
    def _longest(self) -> int:
        """The characters of one event: its share of the excerpt."""
        return self.params.max_characters // (self.params.last + 1)

    def _remember(self, event: sg.Event, state: MustSatisfyJudgeState) -> None:
        if self.params.last:
            attempt = event.attempt if isinstance(event, sg.ToolCall | sg.ToolResult) else -1
            shown = ExcerptLine(attempt, line_of(event, self._longest))
            state.shown = [*state.shown[1 - self.params.last :], shown] if self.params.last > 1 else [shown]

    @staticmethod
    def _leave_out(attempt: int, state: MustSatisfyJudgeState) -> None:
        if attempt >= 0:
            state.shown = [shown for shown in state.shown if shown.attempt != attempt]
