"""Shell commands as effects: what a command does, and rules that ask about it."""

from importlib.resources import files

import stream_guard as sg
from stream_guard_shell.must_test_before_claim import MustTestBeforeClaim
from stream_guard_shell.no_effect import NoEffect


@sg.hookimpl
def stream_guard_rules() -> list[sg.RuleType]:
    """Return every kind of this pack."""
    return [MustTestBeforeClaim, NoEffect]


@sg.hookimpl
def stream_guard_policy_packs() -> list[sg.PolicyPack]:
    """Return the policy pack made of these kinds."""
    summary = "Agents that change a code base and run commands: destruction, secrets, git, publishing."
    return [
        sg.PolicyPack(name="coding_agent", summary=summary, file=files(__package__) / "packs" / "coding_agent.yaml")
    ]
