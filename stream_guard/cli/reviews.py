"""``reviews``: what waits for a person, and the answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stream_guard.analysis.labels import MINIMUM
from stream_guard.cli.forms import show, show_one
from stream_guard.cli.history import (
    ByOption,
    HistoryOption,
    NoteOption,
    answered_by,
    open_history,
    via_account,
    whole_id,
)
from stream_guard.commands import ListFormat, PolicyFile, SettingsFile, SourceFormat
from stream_guard.errors import SettingsError
from stream_guard.history import incidents, verdicts
from stream_guard.history.records import AnswerRefusedError
from stream_guard.history.review_rows import Status
from stream_guard.history.verdicts import Verdict, Word
from stream_guard.judge.model import Event

if TYPE_CHECKING:
    from stream_guard.guard.reviews import Review, Reviews
    from stream_guard.history.database import Database

_COLUMNS = ("id", "kind", "status", "opened", "session_id", "tool", "rule_ids", "reason")
ReviewId = Annotated[str, typer.Argument(help="The id of the review, or the beginning of it.", show_default=False)]


def list_reviews(
    status: Annotated[Status | None, typer.Option(help="Only those that are this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """List reviews, the latest first."""
    with _open_reviews(history, settings_file) as reviews:
        show(reviews.listing(status, limit), _COLUMNS, form)


def show_review(name: ReviewId, history: HistoryOption = None, settings_file: SettingsFile = None) -> None:
    """Show one review whole: what was tried, with which arguments, and why it was stopped."""
    with _open_review(name, history, settings_file) as (reviews, review_id):
        found = reviews.get(review_id)
        if found is None:
            raise AnswerRefusedError(f"there is no review {name[:40]!r}; list them with: stream-guard reviews list")
        show_one(found)


def approve(
    name: ReviewId,
    by: ByOption = None,
    note: NoteOption = "",
    arguments_digest: Annotated[
        str, typer.Option(help="The digest of the arguments you have seen; refused when they are others.")
    ] = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Let the attempt through, once, with the arguments that the review shows."""
    with _open_review(name, history, settings_file) as (reviews, review_id):
        _print(
            reviews.approve(
                review_id, by=answered_by(by), note=note, via=via_account(), arguments_digest=arguments_digest
            )
        )


def reject(
    name: ReviewId,
    by: ByOption = None,
    note: NoteOption = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Refuse the attempt."""
    with _open_review(name, history, settings_file) as (reviews, review_id):
        _print(reviews.reject(review_id, by=answered_by(by), note=note, via=via_account()))


def acknowledge(
    name: ReviewId,
    by: ByOption = None,
    note: NoteOption = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Say that an anomaly_alert has been seen."""
    with _open_review(name, history, settings_file) as (reviews, review_id):
        _print(reviews.acknowledge(review_id, by=answered_by(by), note=note, via=via_account()))


@contextmanager
def _open_reviews(history: str | None, settings_file: Path | None) -> Iterator[Reviews]:
    from stream_guard.guard.reviews import Reviews

    with open_history(history, settings_file) as (database, settings):
        yield Reviews(database, settings.reviews)


@contextmanager
def _open_review(name: str, history: str | None, settings_file: Path | None) -> Iterator[tuple[Reviews, str]]:
    """Open the reviews, and find the one whose id a name is or begins."""
    from stream_guard.guard.reviews import Reviews

    with open_history(history, settings_file) as (database, settings):
        yield Reviews(database, settings.reviews), whole_id(database, "sg_reviews", name, "reviews")


def _print(done: Review) -> None:
    waiting = ", waits for another person" if done.status == "open" else ""
    typer.echo(f"{done.id} {done.status} by {done.by}{waiting}", err=True)


# ``incidents``: what rules found, session by session, and whether it is solved.


_INCIDENT_COLUMNS = ("id", "status", "severity", "opened", "session_id", "rule_id", "findings")
IncidentId = Annotated[str, typer.Argument(help="The id of the incident, or the beginning of it.", show_default=False)]


def list_incidents(
    status: Annotated[incidents.Status | None, typer.Option(help="Only those that are this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """List incidents, the latest first."""
    with open_history(history, settings_file) as (database, _):
        show(incidents.listing(database, status, limit), _INCIDENT_COLUMNS, form)


def show_incident(name: IncidentId, history: HistoryOption = None, settings_file: SettingsFile = None) -> None:
    """Show one incident and its timeline."""
    with open_history(history, settings_file) as (database, _):
        name = whole_id(database, "sg_incidents", name, "incidents")
        found = incidents.get(database, name)
        if found is None:
            raise AnswerRefusedError(f"there is no incident {name[:40]!r}; list them with: stream-guard incidents list")
        show_one({**msgspec.to_builtins(found), "timeline": incidents.timeline(database, name)})


def solve(
    name: IncidentId,
    by: ByOption = None,
    note: NoteOption = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Call an incident solved; a finding that comes later opens it again."""
    with open_history(history, settings_file) as (database, _):
        name = whole_id(database, "sg_incidents", name, "incidents")
        done = incidents.solve(database, name, by=answered_by(by), note=note, time=time.time(), via=via_account())
        typer.echo(f"{done.id} solved by {done.solved_by}", err=True)


# ``verdicts``: what people say of findings, what that says of rules, and exceptions for what is wrong.


_VERDICT_COLUMNS = ("rule_id", "advice", "right", "wrong", "benign", "false_share", "why")


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
    from stream_guard.analysis.labels import advise
    from stream_guard.running.assembly import Assembly

    with open_history(history, settings_file) as (database, settings), Assembly(settings) as assembly:
        rules = [rule.id for rule in assembly.load_policy(policy).rules]
        show(advise(rules, verdicts.counts(database), minimum), _VERDICT_COLUMNS, form)


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
