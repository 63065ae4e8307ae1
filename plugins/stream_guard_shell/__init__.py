"""Shell commands as effects: what a command does, and rules that ask about it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from stream_guard import Command, hookimpl

if TYPE_CHECKING:
    import stream_guard as sg


@hookimpl
def stream_guard_rules() -> list[sg.RuleType]:
    """Return every kind of this pack."""
    # Every process imports this module, for its command; only those that load policies need the kinds.
    from stream_guard_shell.must_read_before_edit import MustReadBeforeEdit
    from stream_guard_shell.must_test_before_claim import MustTestBeforeClaim
    from stream_guard_shell.must_write_claimed_file import MustWriteClaimedFile
    from stream_guard_shell.no_copied_command import NoCopiedCommand
    from stream_guard_shell.no_denied_effect import NoDeniedEffect
    from stream_guard_shell.no_effect import NoEffect

    kinds: list[sg.RuleType] = [MustReadBeforeEdit, MustTestBeforeClaim, MustWriteClaimedFile]
    return [*kinds, NoCopiedCommand, NoDeniedEffect, NoEffect]


@hookimpl
def stream_guard_policy_packs() -> list[sg.PolicyPack]:
    """Return the policy pack made of these kinds."""
    from stream_guard import PolicyPack

    summary = "Agents that change a code base and run commands: destruction, secrets, git, publishing."
    return [PolicyPack(name="coding_agent", summary=summary, file=files(__package__) / "packs" / "coding_agent.yaml")]


@hookimpl
def stream_guard_commands() -> list[Command]:
    """Return the command that shows what agents do."""
    told = "Show a live page of what the agents on this machine do, created, deleted and spent; no gate is needed."
    return [Command(name="watch", help=told, target="stream_guard_shell.watching.command:watch")]
