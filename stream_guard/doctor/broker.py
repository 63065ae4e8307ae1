"""The checks of a broker and its topics: whether it answers and lets us in, what is there, and a sample of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stream_guard.doctor.topics import Check, Sample, Status, check_partitions, check_sample
from stream_guard.kafka.address import Address
from stream_guard.kafka.client import BrokerError, choose_servers, open_consumer, partition_of_key
from stream_guard.kafka.security import describe_login
from stream_guard.ports import Decoder
from stream_guard.settings import KafkaSettings, Settings
from stream_guard.sources.kafka import open_kafka

PATIENCE: Final = 5.0  # seconds; the caller waits for the answer
_LOOPBACK: Final = ("127.", "localhost", "[::1]")


def impatient(kafka: KafkaSettings) -> KafkaSettings:
    """Return the settings for somebody who waits for the answer."""
    return kafka.model_copy(update={"patience": min(PATIENCE, kafka.patience)})


def examine(
    address: Address, companions: Sequence[str], settings: Settings, decoder: Decoder, size: int
) -> Iterator[Check]:
    """Yield the checks of a broker, of its topics, and of the newest records in them."""
    kafka = impatient(settings.kafka)
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
    who = f"logged in as {describe_login(kafka)}" if asked else "no login by password"
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
