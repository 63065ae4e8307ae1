"""The worker logs in by tokens, goes on over their ends, and says why it has none; certificates change under it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http_end import Reply
from tests.kafka.broker import Broker
from tests.kafka.certificates import Certificates, make_certificates
from tests.kafka.cluster import Cluster
from tests.kafka.configuration import LOGIN_SECONDS
from tests.kafka.fixtures import require_broker
from tests.kafka.issuing import TokenEnd
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows

pytestmark = pytest.mark.kafka
SECRET = "canary-0a1b2c3d"
DIRECT = {"env": {"no_proxy": "127.0.0.1"}}


@pytest.fixture
def files(secure_broker: Broker) -> Certificates:
    assert secure_broker.certificates is not None
    return secure_broker.certificates


@pytest.fixture
def end(files: Certificates) -> Iterator[TokenEnd]:
    """An endpoint whose tokens are short-lived."""
    with TokenEnd(files.issuer_key, files.broker, seconds=LOGIN_SECONDS - 2) as made:
        yield made


@pytest.fixture
def fleet(secure_broker: Broker, make_fleet: Callable[[], Fleet]) -> Fleet:
    """A fleet on the broker with security; the test itself uses a plain listener."""
    made = make_fleet()
    made.move_to(Cluster(secure_broker.address()))
    return made


def login(files: Certificates, end: TokenEnd) -> dict[str, str]:
    """The settings of a worker that asks the endpoint for tokens."""
    known = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "ssl_ca_file": str(files.authority),
        "oauth_source": "client_credentials",
        "oauth_url": end.url,
        "oauth_client_id": "guard",
        "oauth_client_secret": SECRET,
        "oauth_ca_file": str(files.authority),
        "patience": "60",
    }
    return {f"kafka__{name}": value for name, value in known.items()} | {"log__level": "debug"}


@pytest.mark.long
def test_a_worker_goes_on_over_the_ends_of_its_tokens(
    fleet: Fleet, secure_broker: Broker, files: Certificates, end: TokenEnd, policy: Path
) -> None:
    rows = sample_rows(20)
    half = len(rows) // 2
    fleet.cluster.fill(fleet.events, rows[:half])
    name = fleet.start(
        at=secure_broker.address("SASL_SSL"), process={"env": {"no_proxy": "127.0.0.1"}}, **login(files, end)
    )
    fleet.wait_for(half)
    before = len(end.requests)
    fleet.wait_until(lambda: len(end.requests) >= before + 3)
    fleet.wait_until(lambda: re.search(r"Connection at \S+ closed", fleet.log_of(name)))
    fleet.cluster.fill(fleet.events, rows[half:])
    fleet.wait_for(len(rows))
    assert set(fleet.alert_ids()) == set(checked(rows, policy))
    assert SECRET not in fleet.log_of(name)
    assert "eyJ" not in fleet.log_of(name)  # how every such token begins


def test_a_refusal_of_the_endpoint_ends_the_worker_with_the_reason(
    fleet: Fleet, secure_broker: Broker, files: Certificates, end: TokenEnd
) -> None:
    end.replies = [Reply(401, {}, b'{"error": "invalid_client"}')] * 100
    name = fleet.start(
        at=secure_broker.address("SASL_SSL"), process={"env": {"no_proxy": "127.0.0.1"}}, **login(files, end)
    )
    assert fleet.end_of(name) == 3
    assert "there is no token to log in with" in fleet.log_of(name)
    assert "status 401 (invalid_client); check kafka.oauth_client_id" in fleet.log_of(name)
    assert SECRET not in fleet.log_of(name)


@pytest.mark.long  # tests/unit/kafka/test_tls.py changes the files between connections
def test_a_worker_goes_on_when_authority_and_certificates_are_changed(
    make_fleet: Callable[[], Fleet], tmp_path: Path, policy: Path
) -> None:
    require_broker(secure=True)
    with Broker(tmp_path / "broker", secure=True) as broker:
        fleet, files = make_fleet(), broker.certificates
        assert files is not None
        fleet.move_to(Cluster(broker.address()))
        mounted = {name: tmp_path / name for name in ("ca", "certificate", "key")}
        mount(files, mounted)
        rows = sample_rows(20)
        half = len(rows) // 2
        fleet.cluster.fill(fleet.events, rows[:half])
        known = {
            "ssl_ca_file": mounted["ca"],
            "ssl_certificate_file": mounted["certificate"],
            "ssl_key_file": mounted["key"],
        }
        settings = {f"kafka__{name}": str(value) for name, value in known.items()}
        fleet.start(at=broker.address("SSL"), kafka__security_protocol="SSL", kafka__patience="120", **settings)
        fleet.wait_for(half)
        # Everything anew: whoever trusts the old authority alone is no longer let in, and lets nobody in.
        mount(make_certificates(broker.folder / "certificates"), mounted)
        broker.kill()
        broker.start()
        fleet.cluster.fill(fleet.events, rows[half:])
        fleet.wait_for(len(rows))
        assert set(fleet.alert_ids()) == set(checked(rows, policy))
        fleet.close()


def mount(files: Certificates, places: dict[str, Path]) -> None:
    """Put the files where a worker reads them, one after the other."""
    for name, file in (("ca", files.authority), ("certificate", files.client), ("key", files.client_key)):
        shutil.copy(file, places[name])
