"""``verdicts``: what people say of findings, what that says of rules, and exceptions for what is wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from stream_guard.analysis.tuning import MINIMUM
from stream_guard.cli.history import (
    ByOption,
    HistoryOption,
    NoteOption,
    answered_by,
    open_history,
    via_account,
    whole_id,
)
from stream_guard.cli.listing import show
from stream_guard.commands import ListFormat, PolicyFile, SettingsFile, SourceFormat
from stream_guard.errors import SettingsError
from stream_guard.history import verdicts
from stream_guard.history.verdicts import Verdict, Word
from stream_guard.judge.model import Event

if TYPE_CHECKING:
    from stream_guard.history.database import Database

_COLUMNS = ("rule_id", "advice", "right", "wrong", "benign", "false_share", "why")


def give(
    alert: Annotated[str, typer.Argument(help="The id of the alert, or the beginning of it.", show_default=False)],
    verdict: Annotated[Word, typer.Argument(help="right, wrong or benign.", show_default=False)],
    by: ByOption = None,
    note: NoteOption = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Say whether a finding is right, wrong, or so and harmless."""
    with open_history(history, settings_file) as (database, _):
        said = {"by": answered_by(by), "note": note, "via": via_account()}
        alert = whole_id(database, "sg_alerts", alert, "alerts")
        done = verdicts.give(database, alert, verdict, time=time.time(), **said)
        typer.echo(f"{done.alert_id} of {done.rule_id} is {done.verdict}, says {done.by}", err=True)


def report(
    policy: PolicyFile,
    minimum: Annotated[int, typer.Option(min=1, help="Verdicts below which nothing is said of a rule.")] = MINIMUM,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print it.")] = ListFormat.TABLE,
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Say of every rule of a policy whether to keep, tune or retire it."""
    from stream_guard.analysis.tuning import advise
    from stream_guard.running.assembly import Assembly

    with open_history(history, settings_file) as (database, settings), Assembly(settings) as assembly:
        rules = [rule.id for rule in assembly.load_policy(policy).rules]
        show(advise(rules, verdicts.counts(database), minimum), _COLUMNS, form)


def propose(
    rule: Annotated[str, typer.Argument(help="The id of the rule.", show_default=False)],
    traces: Annotated[
        list[str] | None, typer.Argument(help="Recordings with the sessions; without any, what the history kept.")
    ] = None,
    *,
    policy: PolicyFile,
    form: SourceFormat = "auto",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Propose an exception for what was marked wrong, and prove that what was marked right still fires; else exit 1."""
    from stream_guard.analysis.exceptions import NoExceptionError, propose_exception
    from stream_guard.documents import write_yaml
    from stream_guard.running.assembly import Assembly

    with open_history(history, settings_file) as (database, settings), Assembly(settings) as assembly:
        loaded = assembly.load_policy(policy)
        said = verdicts.of_rule(database, rule)
        if not said:
            raise SettingsError(
                f"nobody has said anything of the findings of {rule!r}; see: stream-guard verdicts give"
            )
        events = list(assembly.read_events(traces, form)) if traces else kept_of(database, said)
        try:
            found = propose_exception(loaded, rule, events, {one.alert_id: one.verdict for one in said})
        except NoExceptionError as error:
            typer.echo(f"no exception: {error}", err=True)
            raise typer.Exit(1) from None
    typer.echo(write_yaml({"id": found.rule_id, "unless": found.unless}), nl=False)
    proof = found.proof
    typer.echo(
        f"replayed: all {proof.right} findings marked right still fire; {proof.wrong_gone} of {proof.wrong} marked "
        f"wrong do not; {proof.others_gone} others do not",
        err=True,
    )


def kept_of(database: Database, said: list[Verdict]) -> list[Event]:
    """Return the kept events of the sessions that verdicts are about."""
    from stream_guard.history import kept_events

    sessions = dict.fromkeys(one.session_id for one in said)
    return [event for session in sessions for event in kept_events.replay_session(database, session)]
