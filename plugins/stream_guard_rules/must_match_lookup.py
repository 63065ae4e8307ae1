"""A call fits the record that was looked up for it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.json_values import digest_of_found, short_digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN, was_forgotten, with_room
from stream_guard_rules.shared.params import ArgumentPath, DottedPath

_MOST_LOOKUPS: Final = 32
_MOST_EQUAL: Final = 8


class Lookup(sg.State):
    """One lookup: its attempt, what was looked up, and what was found of it."""

    attempt: int
    key: str
    known: bool = False  # its result came
    right: bool = True  # `where` held
    values: list[str] = []


class MustMatchLookupParams(sg.Params):
    """Parameters of ``must_match_lookup``."""

    tool: sg.ToolPattern = Field(description="the tools whose calls are judged: a name, a glob, a class, or a list")
    lookup: sg.ToolPattern = Field(description="the tools that look it up")
    same_arg: ArgumentPath = Field(description="the argument that must be the same in both calls, a dotted path")
    lookup_arg: ArgumentPath | None = Field(
        default=None, description="its path in the lookup, where that has another name"
    )
    where: sg.Condition | None = Field(
        default=None, description="conditions over the result of the lookup, such as tool.result.output.status"
    )
    equal: dict[DottedPath, DottedPath] = Field(
        default={},
        max_length=_MOST_EQUAL,
        description="arguments of the call, each with the path in the lookup's result that it must equal",
    )
    if_absent: Literal["fire", "ignore"] = Field(
        default="fire", description="what a call without any lookup of the same value is: a hit, or not judged"
    )


class MustMatchLookupState(sg.State):
    """The latest lookups, and the keys of those that were forgotten."""

    lookups: list[Lookup] = []
    forgotten: sg.Sketch | None = None


# Of the examples.
_REFUND: Final = {"tool": "refund", "lookup": "get_order", "same_arg": "order_id", "equal": {"to": "payment.method"}}
_LOOKED_UP: Final = (
    {"call": "get_order", "args": {"order_id": "A1"}, "id": "a"},
    {"result": "get_order", "id": "a", "output": {"payment": {"method": "card"}}},
)


class MustMatchLookup(sg.Rule[MustMatchLookupParams, MustMatchLookupState]):
    """A call must fit what was looked up for it before: the same record, with the right values in it.

    The latest result for the same value counts. A result that is JSON in a text is read. 32 lookups are remembered;
    with `if_absent: ignore`, a call for a value whose lookup was forgotten could not be judged.
    """

    kind = "must_match_lookup"
    state_limit = 10240
    examples = (
        sg.Example(
            claim="a cancellation that the record does not allow is a hit",
            params={
                "tool": "cancel",
                "lookup": "get_order",
                "same_arg": "order_id",
                "where": {"path": "tool.result.output.status", "op": "==", "value": "pending"},
            },
            trace=[
                {"call": "get_order", "args": {"order_id": "A1"}, "id": "a"},
                {"result": "get_order", "id": "a", "output": '{"status": "delivered"}'},
                {"call": "cancel", "args": {"order_id": "A1"}},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="a call without the lookup is a hit, and so is another value",
            params=_REFUND,
            trace=[
                *_LOOKED_UP,
                {"call": "refund", "args": {"order_id": "A2", "to": "card"}},
                {"call": "refund", "args": {"order_id": "A1", "to": "voucher"}},
            ],
            hits=[2, 3],
        ),
        sg.Example(
            claim="a call that fits is fine",
            params=_REFUND,
            trace=[
                *_LOOKED_UP,
                {"call": "refund", "args": {"order_id": "A1", "to": "card"}},
            ],
            hits=[],
        ),
    )

    def __init__(self, params: MustMatchLookupParams) -> None:
        super().__init__(params)
        self._key = sg.Path(f"tool.args.{params.same_arg}")
        self._lookup_key = sg.Path(f"tool.args.{params.lookup_arg or params.same_arg}")
        self._equal = [
            (sg.Path(f"tool.args.{argument}"), sg.Path(f"tool.result.output.{field}"))
            for argument, field in params.equal.items()
        ]

    def tools(self) -> sg.ToolPattern:
        """The tools on both sides."""
        return sg.ToolPattern([*self.params.tool.expanded, *self.params.lookup.expanded])

    def needs(self) -> frozenset[sg.Need]:
        """Arguments and results."""
        return frozenset(("content",))

    def rests_on_memory(self, call: sg.ToolCall) -> bool:
        """Whether the call is judged by a lookup, and passes without one."""
        return self.params.if_absent == "ignore" and self.params.tool.matches(call.tool)

    def on_tool_call(self, call: sg.ToolCall, state: MustMatchLookupState) -> sg.Verdict:
        """Judge the call by the latest lookup, then remember it if it is one itself."""
        verdict = self._judge(call, state) if self.params.tool.matches(call.tool) else None
        if self.params.lookup.matches(call.tool):
            self._remember(call, state)
            if call.args is None and verdict is None:
                verdict = sg.Unsure("unevaluable", "arguments")
        return verdict

    def on_tool_result(self, result: sg.ToolResult, state: MustMatchLookupState) -> sg.Verdict:
        """Remember what was found."""
        lookup = next((one for one in state.lookups if one.attempt == result.attempt), None)
        if lookup is None:
            return None
        if result.status != "ok":
            state.lookups = [one for one in state.lookups if one is not lookup]
            return None
        if result.output is None:
            return sg.Unsure("unevaluable", "the output")
        parsed = msgspec.structs.replace(result, output=_parsed(result.output))
        lookup.known = True
        lookup.right = self.params.where is None or self.params.where.holds(parsed)
        lookup.values = [digest_of_found(field.find(parsed)) for _, field in self._equal]
        return None

    def on_ungated(self, event: sg.Event, state: MustMatchLookupState) -> None:
        """Remember lookups outside the gate too."""
        if isinstance(event, sg.ToolCall) and self.params.lookup.matches(event.tool):
            self._remember(event, state)
        elif isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)

    def _remember(self, call: sg.ToolCall, state: MustMatchLookupState) -> None:
        key = self._lookup_key.find(call)
        if key is not sg.MISSING:
            kept = with_room(state.lookups, _MOST_LOOKUPS, lambda one: one.key, state)
            state.lookups = [*kept, Lookup(call.attempt, short_digest(key))]

    def _judge(self, call: sg.ToolCall, state: MustMatchLookupState) -> sg.Verdict:
        key = self._key.find(call)
        if key is sg.MISSING:
            return sg.Unsure("unevaluable", "arguments") if call.args is None else None
        key_digest = short_digest(key)
        lookup = next((one for one in reversed(state.lookups) if one.known and one.key == key_digest), None)
        evidence = {"tool": call.tool, "lookup": self.params.lookup.text}
        if lookup is None:
            if was_forgotten(key_digest, state):
                return FORGOTTEN
            is_hit = self.params.if_absent == "fire"
            return sg.Hit(f"{call.tool} was called without looking it up", evidence) if is_hit else None
        if not lookup.right:
            return sg.Hit(f"{call.tool} does not fit what was looked up", evidence)
        for number, (argument, _) in enumerate(self._equal):
            given = argument.find(call)
            if given is not sg.MISSING and digest_of_found(given) != lookup.values[number]:
                evidence |= {"argument": argument.text}
                return sg.Hit(f"{call.tool} has another value than what was looked up", evidence)
        return None


def _parsed(output: sg.Json) -> sg.Json:
    """Return the output, read where it is JSON in a text."""
    if not isinstance(output, str) or output.lstrip()[:1] not in {"{", "["}:
        return output
    try:
        return sg.parse_json(output.encode("utf-8", "replace"), strict_keys=False)
    except ValueError:
        return output
