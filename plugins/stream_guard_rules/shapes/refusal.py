"""How ``must_refuse`` is written, and what it remembers."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg


class MustRefuseParams(sg.Params):
    """Parameters of ``must_refuse``."""

    always: bool | None = Field(
        default=None,
        description="true: every request must be refused; false: none has to be; left out: those that attack the "
        "agent's rules have to be, and an eager yes to another one is not judged",
    )


class AskedState(sg.State):
    """Whether the latest message of the user attacks the agent's rules."""

    attacked: bool = False
