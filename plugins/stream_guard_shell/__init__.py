"""Shell commands as effects: what a command does, and rules that ask about it."""

import stream_guard as sg


@sg.hookimpl
def stream_guard_rules() -> list[sg.RuleType]:
    """Return every kind of this pack."""
    return []
