"""The prompt that an agent works under, wherever the interface of a model puts it."""

from __future__ import annotations

import stream_guard as sg
from stream_guard_rules.shared.json_texts import texts_in


def system_prompt(request: dict[str, sg.Json] | None) -> str:
    """Return the system prompt of a request; empty where it has none."""
    if request is None:
        return ""
    system = request.get("system")
    messages = request.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    if system is None and isinstance(first, dict) and first.get("role") in {"system", "developer"}:
        system = first.get("content")
    return "\n".join(texts_in(system))
