"""``policy mine``: a draft of rules from sessions that went well."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_guard.commands import INCONCLUSIVE, RecordingReader, SettingsFile, load_plugins


def mine(
    traces: Annotated[list[str], typer.Argument(help="Files or folders of sessions that went well.")],
    support: Annotated[int, typer.Option(min=1, help="Sessions that must make the second call of a rule.")] = 5,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=1.0, help="The share of them that must make the first call before it.")
    ] = 0.95,
    source_format: Annotated[
        str, typer.Option("--from-format", help="The format of the records; auto knows .agentlog files by their name.")
    ] = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """Print a policy to review: orders of calls that good sessions keep, in shadow mode; exit 4 without any."""
    from stream_guard.analysis.mining import draft_policy, mine_sequences

    settings, registry = load_plugins(settings_file)
    reader = RecordingReader(source_format, registry, settings)
    events = [event for trace in traces for event in reader.read(trace)]
    sessions = len({event.session_id for event in events})
    found = mine_sequences(events, min_support=support, min_confidence=confidence)
    for line in reader.summary():
        typer.echo(line, err=True)
    typer.echo(
        f"{sessions} sessions, {len(found)} orders; every rule is in shadow mode until you take that out", err=True
    )
    if not found:
        typer.echo("nothing to mine: more sessions, a lower --support or a lower --confidence may help", err=True)
        raise typer.Exit(INCONCLUSIVE)
    typer.echo(draft_policy(found, sessions), nl=False)
