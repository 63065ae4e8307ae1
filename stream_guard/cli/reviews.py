"""``reviews``: what waits for a person, and the answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_guard.cli.history import (
    ByOption,
    HistoryOption,
    NoteOption,
    answered_by,
    open_history,
    via_account,
    whole_id,
)
from stream_guard.cli.listing import show, show_one
from stream_guard.commands import ListFormat, SettingsFile
from stream_guard.history.records import AnswerRefusedError
from stream_guard.history.review_rows import Status

if TYPE_CHECKING:
    from stream_guard.guard.reviews import Review, Reviews

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
