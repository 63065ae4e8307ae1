"""``policy mine``: a draft of rules from sessions that went well."""

from __future__ import annotations

from typing import Annotated

import typer
from stream_guard_diff.command import read_events

from stream_guard.cli.exits import INCONCLUSIVE
from stream_guard.cli.options import SettingsFile
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.observability.counts import Counts
from stream_guard.registry import build_registry
from stream_guard.settings import load_settings


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

    settings = load_settings(settings_file)
    registry = build_registry(settings.plugins)
    letters = DeadLetters(None, Counts(), format_name=source_format)
    events = [event for trace in traces for event in read_events(trace, source_format, registry, settings, letters)]
    sessions = len({event.session_id for event in events})
    found = mine_sequences(events, min_support=support, min_confidence=confidence)
    for line in letters.summary():
        typer.echo(line, err=True)
    typer.echo(
        f"{sessions} sessions, {len(found)} orders; every rule is in shadow mode until you take that out", err=True
    )
    if not found:
        typer.echo("nothing to mine: more sessions, a lower --support or a lower --confidence may help", err=True)
        raise typer.Exit(INCONCLUSIVE)
    typer.echo(draft_policy(found, sessions), nl=False)
