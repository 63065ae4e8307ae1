"""How ``must_remain_consistent`` is written, and what it remembers."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg


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


class Anchor(sg.State):
    """The first value, or a digest of it, and the turn it was seen in."""

    seen: bool = False
    value: sg.Json = None
    digest: str = ""
    index: int = -1
