"""A call has the arguments that were approved."""

from __future__ import annotations

from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.json_values import digest_of_found, short_digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN, was_forgotten, with_room
from stream_guard_rules.shared.params import ArgumentPath, check_dotted_path

_MOST_APPROVALS: Final = 32


class GivenApproval(sg.State):
    """One approval: its attempt, what it is about, and the arguments that were approved."""

    attempt: int
    key: str
    args: str
    given: bool = False


class NoChangeAfterApprovalParams(sg.Params):
    """Parameters of ``no_change_after_approval``."""

    approval: sg.ToolPattern = Field(description="the tools that ask for an approval, with the arguments to approve")
    tool: sg.ToolPattern = Field(description="the tools that need it")
    same_arg: ArgumentPath | None = Field(
        default=None, description="the argument that tells which approval belongs to which call"
    )
    args: list[str] | None = Field(
        default=None, min_length=1, max_length=32, description="the arguments that must not change; all, if not said"
    )


class NoChangeAfterApprovalState(sg.State):
    """The latest approvals, and the keys of those that were forgotten."""

    approvals: list[GivenApproval] = []
    forgotten: sg.Sketch | None = None


class NoChangeAfterApproval(sg.Rule[NoChangeAfterApprovalParams, NoChangeAfterApprovalState]):
    """What was approved must be done as it was approved: the arguments must not change in between.

    The latest approval with an ok result counts. A call without an approval is not judged here: `must_call_before`
    does that. 32 approvals are remembered; a call whose approval was forgotten could not be judged.
    """

    kind = "no_change_after_approval"
    state_limit = 6144
    examples = (
        sg.Example(
            claim="another amount than the approved one is a hit",
            params={"approval": "ask", "tool": "pay", "same_arg": "to"},
            trace=[
                {"call": "ask", "args": {"to": "AB1", "amount": 20}, "id": "a"},
                {"result": "ask", "id": "a"},
                {"call": "pay", "args": {"to": "AB1", "amount": 200}},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="the same arguments are fine, and a refused approval approves nothing",
            params={"approval": "ask", "tool": "pay"},
            trace=[
                {"call": "ask", "args": {"to": "AB1", "amount": 20}, "id": "a"},
                {"result": "ask", "id": "a"},
                {"call": "ask", "args": {"to": "AB1", "amount": 30}, "id": "b"},
                {"result": "ask", "id": "b", "status": "error"},
                {"call": "pay", "args": {"amount": 20.0, "to": "AB1"}},
            ],
            hits=[],
        ),
    )

    def __init__(self, params: NoChangeAfterApprovalParams) -> None:
        super().__init__(params)
        self._key = sg.Path(f"tool.args.{params.same_arg}") if params.same_arg else None
        self._compared = [sg.Path(f"tool.args.{check_dotted_path(name)}") for name in params.args or ()]

    def tools(self) -> sg.ToolPattern:
        """The tools on both sides."""
        return sg.ToolPattern([*self.params.tool.expanded, *self.params.approval.expanded])

    def needs(self) -> frozenset[sg.Need]:
        """Arguments."""
        return frozenset(("content",))

    def rests_on_memory(self, call: sg.ToolCall) -> bool:
        """Whether the call is compared with an approval."""
        return not self.params.approval.matches(call.tool)

    def on_tool_call(self, call: sg.ToolCall, state: NoChangeAfterApprovalState) -> sg.Verdict:
        """Compare the call with what was approved, or remember what is to be approved."""
        if call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        key = "" if self._key is None else digest_of_found(self._key.find(call))
        args = self._args(call)
        if self.params.approval.matches(call.tool):
            kept = with_room(state.approvals, _MOST_APPROVALS, lambda one: one.key, state)
            state.approvals = [*kept, GivenApproval(call.attempt, key, args)]
            return None
        approval = next((one for one in reversed(state.approvals) if one.given and one.key == key), None)
        if approval is None:
            return FORGOTTEN if was_forgotten(key, state) else None
        if approval.args == args:
            return None
        return sg.Hit(f"{call.tool} has other arguments than what was approved", {"tool": call.tool})

    def on_tool_result(self, result: sg.ToolResult, state: NoChangeAfterApprovalState) -> None:
        """Note that the approval was given."""
        for approval in state.approvals:
            if approval.attempt == result.attempt:
                approval.given = result.status == "ok"

    def on_ungated(self, event: sg.Event, state: NoChangeAfterApprovalState) -> None:
        """Note approvals outside the gate too."""
        if isinstance(event, sg.ToolCall) and self.params.approval.matches(event.tool):
            self.on_tool_call(event, state)
        elif isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)

    def _args(self, call: sg.ToolCall) -> str:
        if self._compared:
            return short_digest([digest_of_found(path.find(call)) for path in self._compared])
        return short_digest(call.args)
