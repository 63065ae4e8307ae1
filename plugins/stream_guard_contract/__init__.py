"""Contracts: whether the agent keeps its rules when the world breaks."""

from __future__ import annotations

from stream_guard import Command, hookimpl


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
            target="stream_guard_contract.run_command:run_command",
        ),
    )
    return [
        Command(name="contract", help="Hold agents to a contract, in calm weather and in a storm.", commands=commands)
    ]
