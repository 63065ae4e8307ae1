"""Policy files written for other systems."""

from __future__ import annotations

import stream_guard as sg
from stream_guard_dialects.phrony import PhronyDialect
from stream_guard_dialects.shadow import ShadowDialect


@sg.hookimpl
def stream_guard_dialects() -> list[type[sg.Dialect]]:
    """Return the dialects of this pack."""
    return [PhronyDialect, ShadowDialect]
