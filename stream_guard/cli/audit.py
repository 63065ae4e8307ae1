"""``audit``: whether the record of decisions is as it was written."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from stream_guard.cli.history import HistoryOption, open_history
from stream_guard.commands import FINDINGS, SettingsFile
from stream_guard.errors import SettingsError
from stream_guard.history import audit, chain


def verify(
    head: Annotated[
        str, typer.Option(help="What an earlier verify printed: finds also records that were cut off the end.")
    ] = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Check every record against its digest and the one before; exit 1 when one was changed. Prints the head."""
    try:
        expected = chain.Head.parse(head) if head else None
    except ValueError as error:
        raise SettingsError(f"--head: {error}") from None
    with open_history(history, settings_file) as (database, _):
        result = audit.verify(database, expected)
    for problem in result.problems:
        typer.echo(problem, err=True)
    typer.echo(str(result.head))
    if result.problems:
        raise typer.Exit(FINDINGS)
    pruned = result.pruned.number
    gone = f"; the first {pruned} were pruned (history.keep)" if pruned else ""
    typer.echo(f"{result.head.number - pruned} records, none changed{gone}; keep the head elsewhere", err=True)


def sign(history: HistoryOption = None, settings_file: SettingsFile = None) -> None:
    """Begin to sign records with history.key_file; run verify first: what is there counts from now on."""
    with open_history(history, settings_file, may_be_new=True) as (database, settings):
        if not settings.history.key_file:
            raise SettingsError("there is no key to sign with; set history.key_file, made by: openssl rand -hex 32")
        with database.transaction() as statements:
            head = chain.sign(statements, time.time())
    typer.echo(str(head))


def show(
    after: Annotated[int, typer.Option(min=0, help="Only records after this number.")] = 0,
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Print the records in order, one JSON object a line."""
    with open_history(history, settings_file) as (database, _):
        for record in chain.records(database, after):
            typer.echo(json.dumps(record))
