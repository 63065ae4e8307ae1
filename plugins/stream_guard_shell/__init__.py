"""Shell commands as effects: what a command does, and rules that ask about it."""

import stream_guard as sg
from stream_guard_shell.must_test_before_claim import MustTestBeforeClaim
from stream_guard_shell.no_effect import NoEffect


@sg.hookimpl
def stream_guard_rules() -> list[sg.RuleType]:
    """Return every kind of this pack."""
    return [MustTestBeforeClaim, NoEffect]
