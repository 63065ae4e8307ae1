"""``hook``: the options of a hook, explained. With plain options ``stream_guard.cli`` never comes here."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_guard.agent_hooks.command import run_hook
from stream_guard.commands import SettingsFile


def claude_code(
    gate: Annotated[str | None, typer.Option(help="Address of the gate, of `stream-guard serve`.")] = None,
    token_file: Annotated[str | None, typer.Option(help="A file that holds an agent's token for the gate.")] = None,
    on_error: Annotated[
        str | None, typer.Option(help="What a call gets that the gate could not judge: closed, ask or open.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for everything that the gate is asked.")] = None,
    agent: Annotated[str | None, typer.Option(help="The name of the agent in the policy.")] = None,
    settings_file: SettingsFile = None,
) -> None:
    """Answer a hook of Claude Code: PreToolUse, PostToolUse, Stop and others, from standard input."""
    from stream_guard.settings import load_settings

    flags = {"gate": gate, "token_file": token_file, "on_error": on_error, "timeout": timeout, "agent": agent}
    settings = load_settings(settings_file, hook=flags).hook
    options = {name: str(value or "") for name, value in settings.model_dump().items()}
    raise typer.Exit(run_hook(options))
