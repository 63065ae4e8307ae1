"""``policy publish``, ``rollback`` and ``rollouts``: policies for a whole group of workers, through a topic."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from stream_guard.cli.forms import show
from stream_guard.commands import ListFormat, SettingsFile, load_plugins
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError, StoreError, StreamGuardError
from stream_guard.kafka.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from stream_guard.kafka.address import Address
    from stream_guard.registry import Registry
    from stream_guard.settings import Settings
    from stream_guard.worker.rollouts import ControlRecords, PolicyRollout

_COLUMNS = ("number", "time", "version", "held", "switched", "by", "note")

PolicyTopic = Annotated[
    str, typer.Option("--to", help="The workers' topic of policies: kafka://HOST:PORT/TOPIC.", show_default=False)
]
Publisher = Annotated[str | None, typer.Option(help="Who does it; default: the name of this account.")]
Note = Annotated[str, typer.Option(help="Why, for those who look at the list later.")]


def publish(
    file: Annotated[Path, typer.Argument(help="The policy file.", show_default=False)],
    to: PolicyTopic,
    hold: Annotated[
        list[str] | None, typer.Option(help="A tenant that keeps the policy it has; may be repeated.")
    ] = None,
    note: Note = "",
    by: Publisher = None,
    settings_file: SettingsFile = None,
) -> None:
    """Roll a policy out to all workers that follow the topic; tenants that are named are held back."""
    from stream_guard.policy.convert import to_yaml
    from stream_guard.policy.load import load_policy
    from stream_guard.worker.rollouts import PolicyRollout, PublishedPolicy, refuse_for_rollouts

    settings, registry = load_plugins(settings_file)
    policy = load_policy(file, registry)
    try:
        refuse_for_rollouts(policy)
    except SettingsError as error:
        raise SettingsError(f"{file}: {error}") from None
    current = _read(to, settings, registry).latest()
    if hold and current is None:
        raise SettingsError(f"{to} has no policy yet that {', '.join(hold)} could keep; publish the one in force first")
    kept = {} if current is None else {tenant: current.held.get(tenant, current.policy) for tenant in hold or ()}
    published = PublishedPolicy(policy.version, to_yaml(policy))
    _send(PolicyRollout(policy=published, held=kept, note=note, time=time.time()), to, by, settings)


def rollback(
    to: PolicyTopic,
    number: Annotated[
        int | None, typer.Argument(help="The rollout to go back to; default: the last with other policies.")
    ] = None,
    note: Note = "",
    by: Publisher = None,
    settings_file: SettingsFile = None,
) -> None:
    """Roll out again what was in force before, for everybody and for tenants that were held back then."""
    settings, registry = load_plugins(settings_file)
    records = _read(to, settings, registry)
    current = records.latest()
    if number is None:
        others = [
            known
            for known, old in records.rollouts.items()
            if current is not None and (old.policy.version, old.held) != (current.policy.version, current.held)
        ]
        number = max(others, default=None)
    if number is None or number not in records.rollouts:
        raise SettingsError(f"{to} has no such rollout to go back to; list them with: stream-guard policy rollouts")
    earlier = msgspec.structs.replace(
        records.rollouts[number], note=note or f"back to rollout {number}", time=time.time()
    )
    _send(earlier, to, by, settings)


def list_rollouts(
    to: PolicyTopic,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """List the policies that were rolled out, and how far the workers have come with each."""
    from stream_guard.worker.rollouts import list_rollouts as list_all

    settings, registry = load_plugins(settings_file)
    show(list_all(_read(to, settings, registry)), _COLUMNS, form)


def _read(to: str, settings: Settings, registry: Registry) -> ControlRecords:
    """Return what the topic has, up to now; what workers refuse is said and passed over."""
    from contextlib import closing

    from stream_guard.sources import open_source
    from stream_guard.worker.rollouts import ControlRecords

    records = ControlRecords()
    with closing(open_source(to, limits=settings.decode, kafka=settings.kafka)) as source:
        for record in source:
            if record is None:
                continue
            wrong = records.add(record.position, record.key, record.value)
            if not wrong and record.position in records.rollouts:
                wrong = _problem(records.rollouts[record.position], registry)
            if wrong:
                records.rollouts.pop(record.position, None)
                typer.echo(f"{to}: record {record.position} is refused: {wrong}", err=True)
    return records


def _problem(rollout: PolicyRollout, registry: Registry) -> str:
    """Return why a rollout cannot be used; empty when it can."""
    from stream_guard.policy.load import load_policy
    from stream_guard.worker.rollouts import open_published

    for published in (rollout.policy, *rollout.held.values()):
        try:
            open_published(published, lambda text: load_policy(text, registry, file="rollout"))
        except StreamGuardError as error:
            return str(error)
    return ""


def _send(rollout: PolicyRollout, to: str, by: str | None, settings: Settings) -> None:
    from stream_guard.cli.history import answered_by
    from stream_guard.kafka.writer import Outgoing, TopicWriter
    from stream_guard.worker.rollouts import encode_rollout, rollout_key

    signed = msgspec.structs.replace(rollout, by=answered_by(by))
    writer = TopicWriter.open(to, settings.kafka)
    try:
        writer.send([Outgoing(rollout_key(uuid.uuid4().hex), encode_rollout(signed))])
    finally:
        writer.close()
    held = "".join(f"; {tenant} keeps {kept.version}" for tenant, kept in sorted(signed.held.items()))
    typer.echo(f"{to}: policy {signed.policy.version} is rolled out{held}")


# ``state``: the states of a group of workers, into a file and out of it.


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
