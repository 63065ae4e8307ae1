"""``state``: the states of a group of workers, into a file and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from stream_guard.commands import SettingsFile
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError, StoreError
from stream_guard.kafka.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from stream_guard.kafka.address import Address
    from stream_guard.settings import Settings

ResultT = TypeVar("ResultT")
Group = Annotated[str | None, typer.Option(help="The group of the workers.")]
Topics = Annotated[
    str, typer.Argument(help="The topics that its workers read: kafka://HOST:PORT/TOPIC, more of them with commas.")
]


def export_state(
    file: Annotated[Path, typer.Argument(help="The file to write; it may not be there yet.", dir_okay=False)],
    source: Topics,
    group: Group = None,
    settings_file: SettingsFile = None,
) -> None:
    """Write the states of a group to a file; its workers are stopped before."""
    address, settings = _open(source, group, settings_file)
    try:
        from stream_guard.worker.kafka.savepoints import export_states
    except ImportError as error:
        raise _needs_extra(error) from None

    if file.exists():
        raise SettingsError(f"{file}: there is such a file already; name another one")
    try:
        header = _run(export_states(address, settings, file))
    except OSError as error:
        raise StoreError(f"{file}: cannot be written: {error.strerror}; look at the disk and the rights") from error
    typer.echo(f"states of {header.group}, {header.partitions} partitions, are in {file}; read up to:", err=True)
    for topic in header.topics:
        left = f"; unread records in {len(topic.unread)} partitions" if topic.unread else "; read to the end"
        typer.echo(f"  {topic.name}: {', '.join(map(str, topic.next_offsets))}{left}", err=True)


def import_state(
    file: Annotated[Path, typer.Argument(help="A file that export has written.", exists=True, dir_okay=False)],
    source: Topics,
    group: Group = None,
    settings_file: SettingsFile = None,
) -> None:
    """Give a group that has no states those of a file, in any number of partitions."""
    address, settings = _open(source, group, settings_file)
    try:
        from stream_guard.worker.kafka.savepoints import import_states
    except ImportError as error:
        raise _needs_extra(error) from None

    done = _run(import_states(address, settings, file))
    typer.echo(
        f"{done.rows} rows of {done.header.group} ({done.header.partitions} partitions) are with "
        f"{settings.worker.group} ({done.partitions} partitions); start its workers on {','.join(address.topics)}",
        err=True,
    )


def _run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    import asyncio

    return asyncio.run(work)


def _open(source: str, group: str | None, settings_file: Path | None) -> tuple[Address, Settings]:
    from stream_guard.settings import load_settings

    try:
        address = parse_address(source)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    return address, load_settings(settings_file, worker={"group": group})


def _needs_extra(error: ImportError) -> SettingsError:
    return SettingsError(f"states of workers need an extra: {install_line('kafka')} ({error})")
