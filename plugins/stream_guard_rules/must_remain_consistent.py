"""A value stays as it was when it was first seen."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.evidence import as_evidence
from stream_guard_rules.shared.json_values import digest

_SCALARS: Final = (str, int, float)
_SMALL: Final = 256  # bytes of a value that is kept as it is; of a larger one only a digest is

_Seen: TypeAlias = sg.Turn | sg.ToolCall | sg.ToolResult


class MustRemainConsistentParams(sg.Params):
    """Parameters of ``must_remain_consistent``."""

    path: sg.Path = Field(
        description="where the value stands: request.*, response.*, model, labels.* in turns; "
        "tool.args.* in calls; tool.result.* in results"
    )

    @field_validator("path")
    @classmethod
    def _can_change(cls, path: sg.Path) -> sg.Path:
        root = path.text.split(".")[0]
        about_tools = root == "tool" and path.steps[:1] in {("name",), ("args",), ("result",)}
        if root in {"user", "session"} or (root == "tool" and not about_tools):
            raise PydanticCustomError(
                "path",
                'no value at "{path}" is meant to stay the same; name one of request, response, model, '
                "stop_reason, labels, tool.name, tool.args or tool.result",
                {"path": path.text},
            )
        return path


class MustRemainConsistentState(sg.State):
    """The first value, or a digest of it, and the turn it was seen in."""

    seen: bool = False
    value: sg.Json = None
    digest: str = ""
    index: int = -1


class MustRemainConsistent(sg.Rule[MustRemainConsistentParams, MustRemainConsistentState]):
    """Once a value was seen at ``path``, every later one must equal it; absence and null are no change."""

    kind = "must_remain_consistent"
    state_limit = 512
    examples = (
        sg.Example(
            claim="an amount that changes after it was agreed is a hit",
            params={"path": "tool.args.amount"},
            trace=[
                {"call": "confirm_amount", "args": {"amount": 20}},
                {"call": "issue_refund", "args": {"amount": 200}},
            ],
            hits=[1],
        ),
        sg.Example(
            claim="absence is no change, and 5 is 5.0",
            params={"path": "request.params.amount"},
            trace=[
                {"turn": "a", "request": {"params": {"amount": 5}}},
                {"turn": "b", "request": {"params": {}}},
                {"turn": "c", "request": {"params": {"amount": 5.0}}},
            ],
            hits=[],
        ),
    )

    def __init__(self, params: MustRemainConsistentParams) -> None:
        super().__init__(params)
        self._finder, self._lacks = params.path.finder, params.path.lacks

    def handlers(self) -> tuple[str, ...]:
        """The handler of the events that the path is about; other events cost nothing."""
        if not self.params.path.text.startswith("tool."):
            return ("on_turn",)
        return ("on_tool_result",) if self.params.path.steps[0] == "result" else ("on_tool_call",)

    def needs(self) -> frozenset[sg.Need]:
        """Content, unless the path leads to a field that every source has."""
        return frozenset(("content",) if self.params.path.reads_content else ())

    def on_turn(self, turn: sg.Turn, state: MustRemainConsistentState) -> sg.Hit | sg.Unsure | None:
        """Compare the value in the turn."""
        return self._compare(turn, state)

    def on_tool_call(self, call: sg.ToolCall, state: MustRemainConsistentState) -> sg.Hit | sg.Unsure | None:
        """Compare the value in the call."""
        return self._compare(call, state)

    def on_tool_result(self, result: sg.ToolResult, state: MustRemainConsistentState) -> sg.Hit | sg.Unsure | None:
        """Compare the value in the result."""
        return self._compare(result, state)

    def _compare(self, event: _Seen, anchor: MustRemainConsistentState) -> sg.Hit | sg.Unsure | None:
        value = self._finder.find(event)
        if value is sg.MISSING or value is None:
            unknown = self._lacks is not None and self._lacks(event)
            return sg.Unsure("unevaluable", "the field that its path begins with") if unknown else None
        known = anchor.value
        if type(value) is str and type(known) is str:  # what most of them are
            if value == known:
                return None
        elif value == known and type(value) is type(known) and type(value) in _SCALARS:
            return None
        if not anchor.seen:
            _remember(anchor, value, event.index)
            return None
        if digest(value) == anchor.digest if anchor.digest else sg.json_equal(value, anchor.value):
            return None
        first = "a long value" if anchor.digest else as_evidence(anchor.value)
        evidence = {
            "path": self.params.path.text,
            "first": first,
            "now": as_evidence(value),
            "first_turn": anchor.index,
        }
        detail = f"{self.params.path.text} changed from {first} to {as_evidence(value)}"
        return sg.Hit(detail, evidence, advice=f"{self.params.path.text} as it was: {first}")


def _remember(anchor: MustRemainConsistentState, value: sg.Json, index: int) -> None:
    """Store the first value, or its digest when it is large."""
    anchor.seen, anchor.index = True, index
    if type(value) is str and len(value) <= _SMALL // 4 and value.isascii():  # what most of them are
        anchor.value = value
        return
    try:
        written = msgspec.msgpack.encode(value)
        kept = msgspec.msgpack.decode(written) if len(written) <= _SMALL else None
    except (ValueError, RecursionError, OverflowError):  # half of a surrogate pair, too deep, too many digits
        kept = None
    if kept is not None and sg.json_equal(kept, value):
        anchor.value = kept
    else:
        anchor.digest = digest(value)
