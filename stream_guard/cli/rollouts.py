"""``policy publish``, ``rollback`` and ``rollouts``: policies for a whole group of workers, through a topic."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stream_guard.cli.listing import show
from stream_guard.commands import ListFormat, SettingsFile, load_plugins
from stream_guard.errors import SettingsError, StreamGuardError

if TYPE_CHECKING:
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
