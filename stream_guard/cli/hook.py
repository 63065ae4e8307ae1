"""``hook``: answers agents, writes itself into their settings, and tries itself out.

With plain options a hook never comes here: ``stream_guard.agent_hooks.command`` answers without the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stream_guard.agent_hooks.dialects import AGENTS
from stream_guard.commands import SettingsFile

if TYPE_CHECKING:
    from pathlib import Path

Agent = Annotated[str, typer.Argument(help=f"The agent: {', '.join(AGENTS)}.")]


def answer(  # noqa: PLR0913, PLR0917  (typer makes an option of each)
    context: typer.Context,
    gate: Annotated[str | None, typer.Option(help="Address of the gate, of `stream-guard serve`.")] = None,
    token_file: Annotated[str | None, typer.Option(help="A file that holds an agent's token for the gate.")] = None,
    on_error: Annotated[
        str | None, typer.Option(help="What a call gets that the gate could not judge: closed, ask or open.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for everything that the gate is asked.")] = None,
    agent: Annotated[str | None, typer.Option(help="The name of the agent in the policy.")] = None,
    pause_as: Annotated[
        str | None, typer.Option(help="What a paused call gets: review (a denial that names it), or ask.")
    ] = None,
    event: Annotated[str, typer.Option(help="The event, for payloads that do not name it.")] = "",
    settings_file: SettingsFile = None,
) -> None:
    """Answer a hook of a coding agent, from standard input."""
    from stream_guard.agent_hooks.command import run_hook
    from stream_guard.settings import load_settings

    flags = {"gate": gate, "token_file": token_file, "on_error": on_error, "timeout": timeout, "agent": agent}
    settings = load_settings(settings_file, hook={**flags, "pause_as": pause_as}).hook
    options = {name: str(value or "") for name, value in settings.model_dump().items()}
    raise typer.Exit(run_hook({**options, "program": str(context.info_name), "event": event}))


def install(
    agent: Agent,
    *,
    flags: Annotated[str, typer.Option(help="Options that the hook is to have: --flags '--on-error open'.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take our hooks out again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Write a hook into an agent's settings: shows the change, asks first, can undo."""
    from pathlib import Path

    from stream_guard.agent_hooks.installing import PLANS, compile_hook, plan, remember

    _known(agent)
    changes = plan(agent, Path.cwd(), Path.home(), flags=flags, undo=undo)
    for change in changes:
        typer.echo(change.shown(), nl=False)
    if changes and not yes and not typer.confirm("Write this?"):
        raise typer.Exit(1)
    for change in changes:
        change.write()
    try:
        remember(changes, _installed())
    except OSError as error:
        typer.echo(f"hook status will not notice changes of these files: {error}", err=True)
    compile_hook()
    typer.echo(f"{agent}: {len(changes)} files written." if changes else f"{agent}: nothing to change.")
    if PLANS[agent].note and not undo:
        typer.echo(PLANS[agent].note)
    if not undo:
        typer.echo(
            f"Try it: stream-guard serve --policy POLICY in one terminal, stream-guard hook test {agent} in another."
        )


def play(
    agent: Agent,
    gate: Annotated[str, typer.Option(help="Address of the gate.")] = "",
) -> None:
    """Play payloads of an agent through its hook, and show what the agent would be told."""
    import json
    import subprocess
    import sys

    from stream_guard.agent_hooks.installing import samples_of

    _known(agent)
    for event, payload in samples_of(agent):
        command = [sys.executable, "-m", "stream_guard.cli", "hook", agent, "--event", event]
        done = subprocess.run(  # noqa: S603  (our own program)
            [*command, *(["--gate", gate] if gate else [])],
            input=json.dumps(payload).encode(),
            capture_output=True,
            check=False,
            timeout=60,
        )
        said = done.stdout.decode().strip() or "(nothing)"
        typer.echo(f"{event}: exit {done.returncode}, {said}")
        if done.stderr:
            typer.echo(f"  {done.stderr.decode().strip()}")


def status(*, clear: Annotated[bool, typer.Option("--clear", help="Forget them after showing them.")] = False) -> None:
    """Show settings that were changed since install, and how many calls ran although no gate was asked."""
    import os

    from stream_guard.agent_hooks import session_counts
    from stream_guard.agent_hooks.installing import compare

    for file, now in compare(_installed()).items():
        typer.echo(f"{file}: {now}")

    found = session_counts.counts(session_counts.UNJUDGED, os.environ)
    for session, count in found.items():
        typer.echo(f"{session}: {count} calls ran without being judged")
    if not found:
        typer.echo("no call ran without being judged")
    if clear:
        session_counts.clear(session_counts.UNJUDGED, os.environ)


def _installed() -> Path:
    """Return the file that says what was written where."""
    import os
    from pathlib import Path

    from stream_guard.agent_hooks.session_counts import folder

    return Path(folder("installed.json", os.environ))


def _known(agent: str) -> None:
    from stream_guard.policy.message_parts import did_you_mean, show

    if agent not in AGENTS:
        raise typer.BadParameter(
            f"no agent is called {show(agent)}{did_you_mean(agent, AGENTS)}; it is one of {', '.join(AGENTS)}"
        )
