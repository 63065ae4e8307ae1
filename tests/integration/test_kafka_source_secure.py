"""Topics of a broker that asks who we are: every way of being let in, and what is said where we are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_guard.errors import SettingsError, SourceError
from stream_guard.settings import KafkaSettings
from stream_guard.sources import open_source
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.kafka.configuration import PASSWORD, USER
from tests.kafka.reading import numbers, read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.usefixtures("hurried_source"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


def secured(broker: Broker, listener: str, **changes: Any) -> tuple[str, KafkaSettings]:
    """The address and the settings for a listener, right in every way that is not changed."""
    files = broker.certificates
    assert files is not None
    known: dict[str, Any] = {"security_protocol": listener, "patience": 60.0}
    if listener.startswith("SASL"):
        known |= {"sasl_username": USER, "sasl_password": PASSWORD}
    if listener.endswith("SSL"):
        known |= {"ssl_ca_file": files.authority}
    if listener == "SSL":
        known |= {"ssl_certificate_file": files.client, "ssl_key_file": files.client_key}
    return broker.address(listener), KafkaSettings.model_validate(known | changes)


WAYS = [
    ("SSL", "PLAIN"),
    *((listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in ("PLAIN", "SCRAM-SHA-256")),
    ("SASL_SSL", "SCRAM-SHA-512"),
]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_every_way_of_being_let_in_works(secure_broker: Broker, listener: str, mechanism: str) -> None:
    cluster = Cluster(secure_broker.address())
    topic = cluster.create()
    cluster.fill(topic, [Row(b"1"), Row(b"2")])
    address, kafka = secured(secure_broker, listener, sasl_mechanism=mechanism)
    assert numbers(read(f"kafka://{address}/{topic}", kafka=kafka)) == [1, 2]


@pytest.mark.usefixtures("leaky_client")
@pytest.mark.parametrize(("listener", "mechanism"), WAYS[1:])
def test_a_wrong_password_is_said_and_not_shown(secure_broker: Broker, listener: str, mechanism: str) -> None:
    address, kafka = secured(secure_broker, listener, sasl_mechanism=mechanism, sasl_password="not-the-word")
    with pytest.raises(SourceError, match=f"refused the login of 'guard' by {mechanism}") as refused:
        open_source(f"kafka://{address}/t", kafka=kafka)
    assert "not-the-word" not in str(refused.value) + repr(kafka)


@pytest.mark.usefixtures("leaky_client")
@pytest.mark.parametrize(
    ("asked", "settings", "reason"),
    [
        ("SSL", {"security_protocol": "PLAINTEXT"}, "does not speak PLAINTEXT on this port"),
        ("SASL_PLAINTEXT", {"security_protocol": "PLAINTEXT"}, "does not speak PLAINTEXT on this port"),
        ("PLAINTEXT", {"security_protocol": "SSL"}, "no encrypted connection.*whether this port speaks SSL"),
        ("SASL_SSL", {"ssl_ca_file": None}, "certificate verify failed.*check kafka.ssl_ca_file"),
        ("SSL", {"ssl_certificate_file": None}, "no encrypted connection.*check kafka.ssl_ca_file"),
    ],
)
def test_a_port_that_speaks_another_language_is_said(
    secure_broker: Broker, asked: str, settings: dict[str, Any], reason: str
) -> None:
    address, kafka = secured(secure_broker, asked, **settings)
    with pytest.raises(SourceError, match=reason):
        open_source(f"kafka://{address}/t", kafka=kafka)


@pytest.mark.usefixtures("leaky_client")
def test_a_name_that_the_certificate_is_not_for_is_refused_unless_that_is_allowed(secure_broker: Broker) -> None:
    topic = Cluster(secure_broker.address()).create()
    port = secure_broker.address("SASL_SSL").rpartition(":")[2]
    _, strict = secured(secure_broker, "SASL_SSL")
    _, lenient = secured(secure_broker, "SASL_SSL", ssl_check_hostname=False)
    # The same machine by a short form of its address, which no certificate names.
    with pytest.raises(SourceError, match="certificate verify failed"):
        open_source(f"kafka://127.1:{port}/{topic}", kafka=strict)
    assert read(f"kafka://127.1:{port}/{topic}", kafka=lenient) == []


def test_a_password_comes_from_a_file(secure_broker: Broker, tmp_path: Path) -> None:
    cluster = Cluster(secure_broker.address())
    topic = cluster.create()
    cluster.fill(topic, [Row(b"1")])
    (tmp_path / "password").write_text(PASSWORD + "\n")
    address, kafka = secured(
        secure_broker, "SASL_PLAINTEXT", sasl_password=None, sasl_password_file=tmp_path / "password"
    )
    assert numbers(read(f"kafka://{address}/{topic}", kafka=kafka)) == [1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sasl_username": ""}, "needs kafka.sasl_username"),
        ({"sasl_password": None}, "needs kafka.sasl_password_file or kafka.sasl_password"),
        ({"sasl_password_file": "/no/such/file"}, "kafka.sasl_password_file: /no/such/file cannot be read"),
        ({"ssl_ca_file": "/no/such/file"}, "kafka.ssl_ca_file: /no/such/file is not a file"),
        ({"ssl_certificate_file": __file__}, "cannot be used.*must be PEM"),
    ],
)
def test_a_setting_that_is_missing_or_wrong_is_named(changes: dict[str, Any], reason: str) -> None:
    settings = {"security_protocol": "SASL_SSL", "sasl_username": "a", "sasl_password": "b"}
    with pytest.raises(SettingsError, match=reason):
        open_source("kafka://127.0.0.1:1/t", kafka=KafkaSettings.model_validate(settings | changes))


def test_json_of_the_settings_holds_no_password() -> None:
    kafka = KafkaSettings.model_validate({"sasl_password": "open sesame"})
    assert "sesame" not in json.dumps(kafka.model_dump(mode="json")) + repr(kafka)
