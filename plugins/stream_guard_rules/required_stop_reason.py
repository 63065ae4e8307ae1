"""Every response ends with an allowed stop reason."""

from __future__ import annotations

from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut


class RequiredStopReasonParams(sg.Params):
    """Parameters of ``required_stop_reason``."""

    allowed: list[str] = Field(min_length=1, description="the stop reasons a response may end with, as a list")


_NO_REASON: Final = sg.Unsure("unevaluable", "a stop_reason")


class RequiredStopReason(sg.Rule[RequiredStopReasonParams, sg.NoState]):
    """Every response must end with one of the ``allowed`` stop reasons; null is not allowed.

    A response that tells nothing of a stop reason, as in a transcript, could not be judged.
    """

    kind = "required_stop_reason"
    examples = (
        sg.Example(
            claim="every response with another reason is a hit, not only the last",
            params={"allowed": ["end_turn"]},
            trace=[{"turn": "a", "stop": "max_tokens"}, {"turn": "b"}],
            hits=[0],
        ),
        sg.Example(
            claim="allowed reasons are silent",
            params={"allowed": ["end_turn", "tool_use"]},
            trace=[{"turn": None, "calls": ["get_order"]}, {"turn": "done"}],
            hits=[],
        ),
    )

    def __init__(self, params: RequiredStopReasonParams) -> None:
        super().__init__(params)
        self._allowed = frozenset(params.allowed)

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Verdict:
        """Check the stop reason."""
        if "stop_reason" not in turn.response:
            return _NO_REASON
        reason = turn.response.get("stop_reason")
        if isinstance(reason, str):
            if reason in self._allowed:
                return None
            found = f'stop_reason "{cut(reason)}"'
        else:
            found = "a missing stop_reason" if reason is None else "a stop_reason that is no text"
        evidence = {"stop_reason": cut(reason) if isinstance(reason, str) else None, "allowed": self.params.allowed}
        return sg.Hit(f"{found} is not one of {', '.join(self.params.allowed)}", evidence)
