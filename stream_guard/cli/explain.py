"""``explain``: why a rule fired, why it did not, what a rule asks for, and what a policy takes a tool for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from stream_guard.cli.forms import show, show_one
from stream_guard.cli.history import HistoryOption
from stream_guard.commands import ListFormat, SettingsFile, SourceFormat
from stream_guard.errors import SettingsError


def explain(  # noqa: PLR0913, PLR0917  # as many as a user may say
    what: Annotated[
        str,
        typer.Argument(
            help="An alert or a session, by its id or the beginning of it, or a rule of the policy; or a tool: --tool."
        ),
    ],
    traces: Annotated[
        list[str] | None,
        typer.Argument(help="Files or folders of recorded events; without them, the history is asked."),
    ] = None,
    policy: Annotated[Path | None, typer.Option("--policy", "-p", help="The policy file.")] = None,
    rule: Annotated[str, typer.Option(help="With a session: only this rule, fired or not.")] = "",
    tool: Annotated[
        bool,
        typer.Option("--tool", help="It is a tool: say its classes, why it is in them, and which rules look at it."),
    ] = False,
    around: Annotated[int, typer.Option(min=0, help="How many entries to show before and after an alert.")] = 3,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print it.")] = ListFormat.TABLE,
    source_format: SourceFormat = "auto",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Say why a rule fired in a session, which events led to it, and where other rules came closest."""
    from stream_guard.cli.explanation import Explanation, explain_from_history, find_rule, no_rule
    from stream_guard.cli.recorded import open_recorded

    if not traces and policy is None:
        explain_from_history(what, history, settings_file)
        return
    if policy is None:
        raise SettingsError("explain needs the policy that the recordings are held against: --policy FILE")
    with open_recorded(traces or [], source_format, policy, settings_file) as recorded:
        rules = recorded.policy
        if rules is None:
            return
        explanation = Explanation(recorded, rules, form, around)
        if tool:
            explanation.tool(what, with_traces=bool(traces))
            return
        spec = find_rule(what, rules)
        if spec is not None:
            explanation.rule(spec, with_traces=bool(traces))
        elif not traces:
            raise SettingsError(f"{no_rule(what, rules)}; for an alert or a session, name the recordings")
        else:
            explanation.alert_or_session(what, rule)


# ``sessions``: the sessions of recordings, in a list or one of them event by event.


_COLUMNS = ("session_id", "agent", "begun", "events", "turns", "calls")
_WITH_POLICY = (*_COLUMNS, "findings", "worst")

Traces = Annotated[list[str], typer.Argument(help="Files or folders of recorded events.", show_default=False)]
AgainstPolicy = Annotated[Path | None, typer.Option("--policy", "-p", help="The policy file; counts its findings too.")]


def list_sessions(
    traces: Traces,
    policy: AgainstPolicy = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, in the order of the recordings.")] = 1000,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    source_format: SourceFormat = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """List the sessions of recordings: agent, time, events, and with a policy what it finds."""
    from stream_guard.cli.recorded import open_recorded

    with open_recorded(traces, source_format, policy, settings_file) as recorded:
        found = list(recorded.survey.sessions.values())
        show(found[:limit], _COLUMNS if policy is None else _WITH_POLICY, form)
        if len(found) > limit:
            typer.echo(f"{len(found) - limit} more; --limit shows them", err=True)


def show_session(
    name: Annotated[str, typer.Argument(help="The session's id, or the beginning of it.", show_default=False)],
    traces: Traces,
    policy: AgainstPolicy = None,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print it.")] = ListFormat.TABLE,
    source_format: SourceFormat = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """Show one session event by event; with a policy, the states that changed and what was found."""
    from rich.console import Console

    from stream_guard.cli.recorded import open_recorded
    from stream_guard.cli.timeline import TimelinePrinter, file_of
    from stream_guard.reports.safe import visible

    with open_recorded(traces, source_format, policy, settings_file) as recorded:
        timeline = recorded.timeline(recorded.session(name))
        if form is ListFormat.JSON:
            show_one(msgspec.to_builtins(timeline))
            return
        file = file_of(timeline.entries)
        printer = TimelinePrinter(Console(highlight=False, markup=False, emoji=False), file)
        printer.line(f"session {visible(timeline.session_id)}", style="bold")
        if file:
            printer.line(visible(file))
        printer.entries(timeline.entries)
        if timeline.left_out:
            printer.line(f"{timeline.left_out} entries without findings are left out", style="dim")
