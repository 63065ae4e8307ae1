"""``audit``: whether the record of decisions is as it was written."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from stream_guard.cli.forms import parse_time
from stream_guard.cli.history import HistoryOption, open_history
from stream_guard.commands import FINDINGS, SettingsFile
from stream_guard.errors import SettingsError, StoreError
from stream_guard.history import audit, chain
from stream_guard.storage.sqlite_files import PRIVATE


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


# ``evidence``: what the history has of a period, as a file that can be checked anywhere.


def export(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; it must not be there yet.")],
    since: Annotated[str, typer.Option(help="The first moment: 2026-01-31, or 2026-01-31T12:00:00Z.")],
    until: Annotated[str, typer.Option(help="The moment it ends before; now without one.")] = "",
    tenant: Annotated[str, typer.Option(help="Only what is this tenant's; records of others are withheld.")] = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Write audit, decisions, policies and findings of a period to a file of chained lines. Prints its head."""
    from stream_guard.history.evidence import EvidencePeriod, EvidenceWriter

    now = time.time()
    period = EvidencePeriod(
        since=parse_time("--since", since), until=parse_time("--until", until) if until else now, tenant=tenant
    )
    if period.since >= period.until:
        raise SettingsError("--since must be before --until")
    with open_history(history, settings_file) as (database, _):
        writer = EvidenceWriter(database, period)
        try:
            # Not over what is there: evidence is not replaced by accident.
            with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE), "wb") as file:
                file.writelines(writer.lines(now))
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            raise SettingsError(f"{out}: the file is there already; choose another name") from None
        except OSError as error:
            raise StoreError(f"{out}: the evidence cannot be written: {error.strerror}") from None
    counted = ", ".join(f"{number} x {sort}" for sort, number in sorted(writer.counts.items()))
    if writer.pruned:
        typer.echo(f"record {writer.pruned} of the audit and those before it are pruned (history.keep)", err=True)
    for version in sorted(writer.missing):
        typer.echo(f"the history does not have the policy {version}", err=True)
    typer.echo(f"{out}: {counted}; keep the head elsewhere", err=True)
    typer.echo(writer.head)


def verify_evidence(
    file: Annotated[Path, typer.Argument(help="The file that export wrote.")],
    head: Annotated[str, typer.Option(help="What export printed: finds also a file that was written anew.")] = "",
    key_file: Annotated[Path | None, typer.Option(help="The key of the history, where the file is signed.")] = None,
) -> None:
    """Check a file of evidence, without a history: every line, the chain, the audit; exit 1 when it was changed."""
    from stream_guard.history.evidence import check_evidence
    from stream_guard.settings import HistorySettings

    key = HistorySettings(key_file=key_file).read_key()
    try:
        with file.open("rb") as lines:
            result = check_evidence(lines, key=key, head=head.strip())
    except OSError as error:
        raise StoreError(f"{file}: the evidence cannot be read: {error.strerror}") from None
    for line in (*result.problems, *result.remarks):
        typer.echo(line, err=True)
    typer.echo(result.head)
    if result.problems:
        raise typer.Exit(FINDINGS)
    counted = ", ".join(f"{number} x {sort}" for sort, number in sorted(result.counts.items()))
    typer.echo(f"{counted}; none changed", err=True)
