"""``reviews``: what waits for a person, and the answers."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_guard.cli.history import ByOption, HistoryOption, NoteOption, SettingsFile, opened, speaker
from stream_guard.cli.listing import ListFormat, show, show_one
from stream_guard.history.records import AnswerError
from stream_guard.reviews import Reviews, Status

_COLUMNS = ("id", "kind", "status", "opened", "session_id", "tool", "rule_ids", "reason")
ReviewId = Annotated[str, typer.Argument(help="The id of the review.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(help="What waits for a person.", no_args_is_help=True)
    group.command("list")(list_reviews)
    group.command("show")(show_review)
    group.command("approve")(approve)
    group.command("reject")(reject)
    group.command("acknowledge")(acknowledge)
    app.add_typer(group, name="reviews")


def list_reviews(
    status: Annotated[Status | None, typer.Option(help="Only those that are this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """List reviews, the latest first."""
    with opened(history, settings_file) as (database, settings):
        show(Reviews(database, settings.reviews).listing(status, limit), _COLUMNS, form)


def show_review(name: ReviewId, history: HistoryOption = None, settings_file: SettingsFile = None) -> None:
    """Show one review whole: what was tried, with which arguments, and why it was stopped."""
    with opened(history, settings_file) as (database, settings):
        found = Reviews(database, settings.reviews).get(name)
        if found is None:
            raise AnswerError(f"there is no review {name[:40]!r}; list them with: stream-guard reviews list")
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
    with opened(history, settings_file) as (database, settings):
        reviews = Reviews(database, settings.reviews)
        done = reviews.approve(name, by=speaker(by), note=note, arguments_digest=arguments_digest)
        typer.echo(f"{done.id} approved by {done.by}", err=True)


def reject(
    name: ReviewId,
    by: ByOption = None,
    note: NoteOption = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Refuse the attempt."""
    with opened(history, settings_file) as (database, settings):
        done = Reviews(database, settings.reviews).reject(name, by=speaker(by), note=note)
        typer.echo(f"{done.id} rejected by {done.by}", err=True)


def acknowledge(
    name: ReviewId,
    by: ByOption = None,
    note: NoteOption = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Say that an anomaly_alert has been seen."""
    with opened(history, settings_file) as (database, settings):
        done = Reviews(database, settings.reviews).acknowledge(name, by=speaker(by), note=note)
        typer.echo(f"{done.id} acknowledged by {done.by}", err=True)
