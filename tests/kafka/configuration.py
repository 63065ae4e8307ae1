"""What a single broker is told: combined roles, loopback only, small, and every way of logging in that we support."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.kafka.certificates import Certificates
from tests.kafka.issuing import AUDIENCE

HOST: Final = "127.0.0.1"
CONTROLLER: Final = "CONTROLLER"
PROXIED: Final = "PROXIED"  # a plain listener that clients reach through a proxy
PLAIN_LISTENERS: Final = ("PLAINTEXT",)
ALL_LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER: Final = "guard"
PASSWORD: Final = "open sesame"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTH: Final = "OAUTHBEARER"
SILENCE: Final = 5.0  # seconds after which others take a broker for lost; a machine that is busy stands still for some
LOGIN_SECONDS: Final = 12
"""A connection that a token logged in longer ago is closed.

That is longer than the sessions of members in tests. Joining a group may wait until a member that is gone has timed
out, and a connection that ends before makes one more such member.
"""

_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"

LOGGING: Final = """
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True)
class Seat:
    """The place of a broker among others: its number, all controllers, and the ports under which clients know it."""

    node: int = 1
    controllers: Mapping[int, int] = field(default_factory=dict)  # ports of all controllers, by node; none: its own
    advertised: Mapping[str, int] = field(default_factory=dict)  # ports by listener, where others listen in its place

    @property
    def copies(self) -> int:
        """How many copies a record has."""
        return max(1, len(self.controllers))


ALONE: Final = Seat()


def server_properties(
    folder: Path, ports: Mapping[str, int], certificates: Certificates | None, seat: Seat = ALONE
) -> str:
    """Return the text of the properties file."""
    listeners = [f"{name}://{HOST}:{port}" for name, port in ports.items()]
    outside = [f"{name}://{HOST}:{seat.advertised.get(name, ports[name])}" for name in ports if name != CONTROLLER]
    protocols = [f"{name}:{'PLAINTEXT' if name in (CONTROLLER, PROXIED) else name}" for name in ports]
    voters = seat.controllers or {seat.node: ports[CONTROLLER]}
    copies = str(seat.copies)
    settings = {
        # Samples keep their own times, which lie months back: a broker that forgets by time would delete them.
        "log.retention.ms": -1,
        "process.roles": "broker,controller",
        "node.id": str(seat.node),
        "controller.quorum.voters": ",".join(f"{node}@{HOST}:{port}" for node, port in voters.items()),
        "controller.listener.names": CONTROLLER,
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(outside),
        "listener.security.protocol.map": ",".join(protocols),
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "metadata.log.dir": str(folder / "metadata"),
        # A topic that appears because somebody misspelt it would hide mistakes.
        "auto.create.topics.enable": "false",
        # A broker that was killed may register again when its last session has run out.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": str(round(SILENCE * 1000)),
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "offsets.topic.num.partitions": "4",
        "default.replication.factor": copies,
        "min.insync.replicas": "2" if seat.copies > 1 else "1",
        "offsets.topic.replication.factor": copies,
        "replica.lag.time.max.ms": "4000",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": copies,
    }
    if certificates is not None:
        settings |= _security(certificates)
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _security(certificates: Certificates) -> dict[str, str]:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, OAUTH)),
        "sasl.oauthbearer.jwks.endpoint.url": certificates.issuer_keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f'{_PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        for mechanism in SCRAM:
            settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{_SCRAM_MODULE} required;"
        tokens = f"{prefix}.{OAUTH.lower()}"
        settings[f"{tokens}.sasl.jaas.config"] = f"{_OAUTH}.OAuthBearerLoginModule required;"
        settings[f"{tokens}.sasl.server.callback.handler.class"] = f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
        settings[f"{tokens}.connections.max.reauth.ms"] = str(LOGIN_SECONDS * 1000)
    return settings
