"""The worker connects by TLS and by every SASL mechanism, and reports a refused login."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.kafka.configuration import PASSWORD, USER
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows

pytestmark = pytest.mark.kafka

WAYS = [
    ("SSL", "PLAIN"),
    pytest.param("SASL_PLAINTEXT", "PLAIN", marks=pytest.mark.long),
    pytest.param("SASL_PLAINTEXT", "SCRAM-SHA-256", marks=pytest.mark.long),
    ("SASL_SSL", "SCRAM-SHA-512"),
]


def login(broker: Broker, listener: str, mechanism: str) -> dict[str, str]:
    """The settings of a worker for a listener and a mechanism."""
    files = broker.certificates
    assert files is not None
    known = {"kafka__security_protocol": listener, "kafka__patience": "60"}
    if listener.startswith("SASL"):
        known |= {"kafka__sasl_mechanism": mechanism, "kafka__sasl_username": USER, "kafka__sasl_password": PASSWORD}
    if listener.endswith("SSL"):
        known |= {"kafka__ssl_ca_file": str(files.authority)}
    if listener == "SSL":
        known |= {"kafka__ssl_certificate_file": str(files.client), "kafka__ssl_key_file": str(files.client_key)}
    return known


@pytest.fixture
def secure_fleet(secure_broker: Broker, tmp_path: Path, policy: Path, make_fleet: Callable[[], Fleet]) -> Fleet:
    """A fleet on the broker with security; the test itself uses a plain listener."""
    del tmp_path, policy
    fleet = make_fleet()
    fleet.move_to(Cluster(secure_broker.address()))
    return fleet


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_every_security_protocol_and_mechanism_works(
    secure_fleet: Fleet, secure_broker: Broker, policy: Path, listener: str, mechanism: str
) -> None:
    rows = sample_rows(20)
    secure_fleet.cluster.fill(secure_fleet.events, rows)
    secure_fleet.start(at=secure_broker.address(listener), **login(secure_broker, listener, mechanism))
    secure_fleet.wait_for(len(rows))
    assert set(secure_fleet.alert_ids()) == set(checked(rows, policy))


def test_a_wrong_password_ends_the_worker_and_is_not_shown(secure_fleet: Fleet, secure_broker: Broker) -> None:
    known = login(secure_broker, "SASL_SSL", "SCRAM-SHA-512") | {"kafka__sasl_password": "not-the-word"}
    name = secure_fleet.start(at=secure_broker.address("SASL_SSL"), **known)
    assert secure_fleet.end_of(name) == 3
    assert "refused the login of 'guard' by SCRAM-SHA-512" in secure_fleet.log_of(name)
    assert "not-the-word" not in secure_fleet.log_of(name)
