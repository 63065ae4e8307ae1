"""Contracts: whether an agent keeps its rules under faults. ``tool`` and ``model`` wrap Python functions for a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stream_guard import Command, hookimpl

if TYPE_CHECKING:
    from stream_guard_contract.wrapped import ModelUnavailableError, ToolUnavailableError, model, tool, tools

__all__ = ["ModelUnavailableError", "ToolUnavailableError", "model", "tool", "tools"]


@hookimpl
def stream_guard_commands() -> list[Command]:
    """Return the group of commands about contracts."""
    commands = (
        Command(
            name="validate",
            help="Say what is wrong with a contract, all of it, with line and column; exit 2 when it cannot be used.",
            target="stream_guard_contract.commands:validate",
        ),
        Command(
            name="score",
            help="Print the score of recorded sessions; exit 1 when the contract is broken, "
            "4 when nothing could be judged.",
            target="stream_guard_contract.commands:score_command",
        ),
        Command(
            name="ci",
            help="Print every part's score and the overall one; exit 1 when the contract is broken "
            "or a part is too low.",
            target="stream_guard_contract.commands:ci_command",
        ),
        Command(
            name="run",
            help="Ask an agent everything under every scenario; exit 1 when the contract is broken, "
            "4 when it cannot be told.",
            target="stream_guard_contract.commands:run_command",
        ),
    )
    return [
        Command(name="contract", help="Hold agents to a contract, without faults and under faults.", commands=commands)
    ]


def __getattr__(name: str) -> Any:
    """Load a public name on first use: every command imports this package to find its plugins."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stream_guard_contract import wrapped  # noqa: PLC0415  # loaded when needed

    return getattr(wrapped, name)
