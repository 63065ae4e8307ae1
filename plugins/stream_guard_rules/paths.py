"""What a path asks of the source."""

from __future__ import annotations

from typing import Final

import stream_guard as sg

# Sources that leave content out (the default of OpenTelemetry) still tell these.
_ALWAYS_TOLD: Final = frozenset(("model", "stop_reason", "usage", "latency_ms"))


def needs_content(path: sg.Path) -> bool:
    """Whether the path leads into what was said or passed, which a source may leave out."""
    root = path.text.split(".")[0]
    if root in {"request", "response"}:
        return not path.steps or path.steps[0] not in _ALWAYS_TOLD
    return root == "user" or (root == "tool" and path.steps[:1] != ("name",))
