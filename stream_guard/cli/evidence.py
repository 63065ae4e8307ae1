"""``evidence``: what the history has of a period, as a file that can be checked anywhere."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from stream_guard.cli.history import HistoryOption, open_history
from stream_guard.cli.listing import parse_time
from stream_guard.commands import FINDINGS, SettingsFile
from stream_guard.errors import SettingsError, StoreError
from stream_guard.storage.sqlite_files import PRIVATE


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


def verify(
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
