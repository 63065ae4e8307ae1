"""``doctor``: whether the broker and the topics are fit to be watched, and what to do where they are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stream_guard.commands import FINDINGS, INFRASTRUCTURE, SettingsFile, SourceFormat
from stream_guard.doctor.topics import Check, Sample, Status, check_partitions, check_sample
from stream_guard.errors import SettingsError
from stream_guard.kafka.address import Address, parse_address
from stream_guard.kafka.client import BrokerError, choose_servers, open_consumer, partition_of_key
from stream_guard.ports import Decoder
from stream_guard.running.assembly import Assembly
from stream_guard.settings import KafkaSettings, Settings, load_settings
from stream_guard.sources.kafka import open_kafka

PATIENCE: Final = 5.0  # seconds; the caller waits for the answer
_STYLES: Final = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red"}
_LOOPBACK: Final = ("127.", "localhost", "[::1]")


class CheckFormat(StrEnum):
    """How checks are printed."""

    TABLE = "table"
    JSON = "json"


def doctor(
    kafka: Annotated[
        str | None, typer.Option("--kafka", help="The topics of events: kafka://HOST:PORT/TOPIC[,TOPIC].")
    ] = None,
    gate: Annotated[
        str | None,
        typer.Option("--probe", help="Send a probe through a gate: http://HOST:PORT, or package.module:name."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="The topic that keeps the worker's states.")] = None,
    rekey: Annotated[
        str | None, typer.Option(help="The topic that events are sent to under their session's id.")
    ] = None,
    size: Annotated[int, typer.Option("--sample", min=1, help="How many of the newest records to look at.")] = 1000,
    source_format: SourceFormat = "auto",
    form: Annotated[CheckFormat, typer.Option("--format", help="How to print the checks.")] = CheckFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """Look at a broker and its topics, or at a gate; exit 1 when something must be mended, 3 when the broker is out."""
    if kafka is None and gate is None:
        raise SettingsError("doctor has nothing to look at; give --kafka, --probe, or both")
    settings = load_settings(settings_file)
    checks = [] if gate is None else [_probe(gate, settings)]
    if kafka is not None:
        decoder = Assembly(settings).make_decoder(source_format)
        try:
            address = parse_address(kafka)
        except ValueError as error:
            raise SettingsError(f"--kafka {error}") from None
        companions = [topic for topic in (table, rekey) if topic is not None]
        checks += _examine(address, companions, settings, decoder, size)
    _show(checks, form)
    if any(check.about in ("broker", "login") and check.status is Status.FAIL for check in checks):
        raise typer.Exit(INFRASTRUCTURE)
    if any(check.status is Status.FAIL for check in checks):
        raise typer.Exit(FINDINGS)


def _probe(target: str, settings: Settings) -> Check:
    """Whether a gate blocks what must be blocked."""
    from stream_guard.doctor.probe import probe

    problem = probe(target, settings.api.read_token())
    if problem:
        return Check("gate", Status.FAIL, problem, "see that the gate is registered, and that agents use this one")
    return Check("gate", Status.OK, f"{target} blocked the probe")


def _examine(
    address: Address, companions: list[str], settings: Settings, decoder: Decoder, size: int
) -> Iterator[Check]:
    kafka = settings.kafka.model_copy(update={"patience": min(PATIENCE, settings.kafka.patience)})
    servers = choose_servers(address.servers, kafka)
    try:
        connection = open_consumer(servers, kafka)
    except BrokerError as error:
        yield from _say_refusal(error, servers)
        return
    try:
        yield Check("broker", Status.OK, f"{','.join(servers)} answers")
        yield _check_security(servers, kafka)
        counted = {
            topic: len(connection.client.partitions_for_topic(topic)) for topic in (*address.topics, *companions)
        }
    finally:
        connection.close(autocommit=False)
    yield _check_topics(counted)
    present = {topic: counted[topic] for topic in address.topics if counted[topic]}
    beside = {topic: counted[topic] for topic in companions if counted[topic]}
    if not present:
        return
    yield check_partitions(present, beside)
    yield from check_sample(_take_sample(address, present, kafka, settings, decoder, size), partition_of_key)


def _say_refusal(error: BrokerError, servers: tuple[str, ...]) -> Iterator[Check]:
    found, _, advice = str(error).rpartition("; ")
    if error.stage != "login":
        yield Check("broker", Status.FAIL, found, advice)
        return
    yield Check("broker", Status.OK, f"{','.join(servers)} answers")
    yield Check("login", Status.FAIL, found, advice)


def _check_security(servers: tuple[str, ...], kafka: KafkaSettings) -> Check:
    protocol = kafka.security_protocol
    asked = protocol.startswith("SASL")
    who = f"logged in as {kafka.sasl_username!r} by {kafka.sasl_mechanism}" if asked else "no login by password"
    if protocol.endswith("SSL"):
        return Check("login", Status.OK, f"{who}; encrypted")
    if all(server.startswith(_LOOPBACK) for server in servers):
        return Check("login", Status.OK, f"{who}; not encrypted, on this machine")
    advice = "set kafka.security_protocol to SASL_SSL, or SSL with a certificate of our own"
    return Check("login", Status.WARN, f"{who}; whoever is on the way can read and change everything", advice)


def _check_topics(counted: Mapping[str, int]) -> Check:
    missing = [topic for topic, count in counted.items() if not count]
    if missing:
        advice = "create them, or ask for the right to read them"
        return Check("topics", Status.FAIL, f"not there, or not for us: {', '.join(missing)}", advice)
    return Check("topics", Status.OK, f"{', '.join(counted)} can be read")


def _take_sample(
    address: Address,
    partitions: Mapping[str, int],
    kafka: KafkaSettings,
    settings: Settings,
    decoder: Decoder,
    size: int,
) -> Sample:
    sample = Sample(partitions)
    share = max(1, size // sum(partitions.values()))
    newest = Address(address.servers, tuple(partitions))
    source = open_kafka(
        f"{newest}?from=-{share}", kafka, follow=False, limit=settings.decode.max_record_bytes, positions={}
    )
    try:
        for record in source:
            if record is not None:
                sample.add(record, decoder)
    finally:
        source.close()
    return sample


def _show(checks: list[Check], form: CheckFormat) -> None:
    if form is CheckFormat.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode([_row(check) for check in checks]), indent=2).decode())
        return
    printed = Table(box=None, pad_edge=False)
    for heading in ("about", "", "found", "what to do"):
        printed.add_column(heading, overflow="fold")
    for check in checks:
        # Text, not str: what records say may look like markup.
        status = Text(check.status.value, style=_STYLES[check.status])
        printed.add_row(check.about, status, Text(check.found), Text(check.advice))
    Console().print(printed)


def _row(check: Check) -> dict[str, Any]:
    return {"about": check.about, "status": check.status.value, "found": check.found, "advice": check.advice}
