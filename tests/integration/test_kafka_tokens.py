"""Topics of a broker that is shown tokens: it checks their signatures, and ours are renewed while it asks for more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_guard.doctor.topics import examine
from stream_guard.errors import SourceError
from stream_guard.kafka.address import parse_address
from stream_guard.kafka.writer import Outgoing, TopicWriter
from stream_guard.settings import KafkaSettings
from stream_guard.sources import open_source
from tests.http_end import Reply
from tests.kafka.broker import Broker
from tests.kafka.certificates import Certificates
from tests.kafka.cluster import Cluster, Row
from tests.kafka.issuing import TokenEnd, issue
from tests.kafka.reading import numbers, read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.usefixtures("hurried_source"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
SECRET = "canary-0a1b2c3d"


@pytest.fixture
def files(secure_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Certificates:
    assert secure_broker.certificates is not None
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return secure_broker.certificates


@pytest.fixture
def end(files: Certificates) -> Iterator[TokenEnd]:
    with TokenEnd(files.issuer_key, files.broker) as made:
        yield made


def login(files: Certificates, listener: str = "SASL_SSL", **changes: Any) -> KafkaSettings:
    known = {"security_protocol": listener, "sasl_mechanism": "OAUTHBEARER", "patience": 60.0}
    trusted = {"ssl_ca_file": files.authority, "oauth_ca_file": files.authority}
    return KafkaSettings.model_validate(known | trusted | changes)


def by_endpoint(end: TokenEnd, **changes: Any) -> dict[str, Any]:
    known = {"oauth_source": "client_credentials", "oauth_url": end.url, "oauth_client_id": "guard"}
    return known | {"oauth_client_secret": SECRET} | changes


def by_file(files: Certificates, folder: Path, **claims: Any) -> dict[str, Any]:
    (folder / "token").write_text(issue(files.issuer_key, **claims))
    return {"oauth_source": "file", "oauth_token_file": folder / "token"}


def topic_with_two(broker: Broker) -> str:
    cluster = Cluster(broker.address())
    topic = cluster.create()
    cluster.fill(topic, [Row(b"1"), Row(b"2")])
    return topic


@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_token_of_an_endpoint_lets_us_in(
    secure_broker: Broker, files: Certificates, end: TokenEnd, listener: str
) -> None:
    kafka = login(files, listener, **by_endpoint(end))
    address = f"kafka://{secure_broker.address(listener)}/{topic_with_two(secure_broker)}"
    assert numbers(read(address, kafka=kafka)) == [1, 2]


def test_a_token_of_a_file_or_a_command_lets_us_in(secure_broker: Broker, files: Certificates, tmp_path: Path) -> None:
    address = f"kafka://{secure_broker.address('SASL_SSL')}/{topic_with_two(secure_broker)}"
    given = by_file(files, tmp_path)
    assert numbers(read(address, kafka=login(files, **given))) == [1, 2]
    assert numbers(
        read(address, kafka=login(files, oauth_source="command", oauth_command=f"cat {tmp_path}/token"))
    ) == [1, 2]


@pytest.mark.usefixtures("leaky_client")
@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"aud": "others"}, id="audience"),
        # The client tries again for as long as its patience lasts.
        pytest.param({"exp": 1}, id="expired", marks=pytest.mark.long),
        pytest.param({"sub": ""}, id="nobody"),
    ],
)
def test_a_token_that_the_broker_refuses_is_said_and_not_shown(
    secure_broker: Broker, files: Certificates, tmp_path: Path, claims: dict[str, Any]
) -> None:
    given = by_file(files, tmp_path, **claims)
    with pytest.raises(SourceError, match=r"the bearer of a token from 'file'|the token expired") as refused:
        open_source(f"kafka://{secure_broker.address('SASL_SSL')}/t", kafka=login(files, **given))
    assert (tmp_path / "token").read_text()[:60] not in str(refused.value)


@pytest.mark.usefixtures("leaky_client")
def test_a_token_that_another_key_signed_is_refused(secure_broker: Broker, files: Certificates, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(issue(files.client_key))
    kafka = login(files, oauth_source="file", oauth_token_file=tmp_path / "token")
    with pytest.raises(SourceError, match="refused the login of the bearer of a token from 'file' by OAUTHBEARER"):
        open_source(f"kafka://{secure_broker.address('SASL_SSL')}/t", kafka=kafka)


@pytest.mark.usefixtures("leaky_client")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"oauth_url": "http://127.0.0.1:1/token"}, "no token to log in with: kafka.oauth_url: .* cannot be reached"),
        ({"oauth_source": "command", "oauth_command": f"false {SECRET}"}, "false ended with exit code 1; run it by"),
        ({"oauth_source": "command", "oauth_command": f"none {SECRET}"}, "none cannot be started: No such file"),
        ({"oauth_source": "file", "oauth_token_file": "/no/such"}, "oauth_token_file: /no/such cannot be read"),
    ],
)
def test_why_there_is_no_token_is_said(
    secure_broker: Broker, files: Certificates, end: TokenEnd, changes: dict[str, Any], said: str
) -> None:
    message = "no broker answers"
    for patience in (1.0, 10.0, 60.0):  # which it waits to the end: longer ones are for a broker on a busy machine
        if "no broker answers" in message:
            kafka = login(files, patience=patience, **by_endpoint(end, **changes))
            with pytest.raises(SourceError) as failed:
                open_source(f"kafka://{secure_broker.address('SASL_SSL')}/t", kafka=kafka)
            message = str(failed.value)
    assert re.search(said, message)
    assert SECRET not in message


@pytest.mark.usefixtures("leaky_client")
def test_doctor_says_who_refused_us(secure_broker: Broker, files: Certificates, end: TokenEnd) -> None:
    from stream_guard.registry import build_registry
    from stream_guard.settings import Settings

    address = parse_address(f"{secure_broker.address('SASL_SSL')}/{topic_with_two(secure_broker)}")
    decoder = build_registry().decoders["native"].configure(Settings())

    def check(**changes: Any) -> Any:
        kafka = login(files, **by_endpoint(end, **changes))
        settings = Settings().model_copy(update={"kafka": kafka})
        return {one.about: one for one in examine(address, (), settings, decoder, 10)}["login"]

    assert check().found == "logged in as the bearer of a token from 'client_credentials' by OAUTHBEARER; encrypted"
    end.replies = [Reply(401, {}, b'{"error": "invalid_client"}')]
    refused = check(oauth_client_id="stranger")
    assert "status 401 (invalid_client)" in refused.found
    assert refused.advice.startswith("check kafka.oauth_client_id, kafka.oauth_client_secret_file")


def test_a_writer_goes_on_over_many_tokens(secure_broker: Broker, files: Certificates, end: TokenEnd) -> None:
    topic = Cluster(secure_broker.address()).create()
    end.seconds = 3
    writer = TopicWriter(
        parse_address(f"{secure_broker.address('SASL_SSL')}/{topic}"), login(files, **by_endpoint(end))
    )
    try:
        sent = 0
        while len(end.requests) < 4:
            writer.send([Outgoing(b"k", str(sent).encode())])
            sent += 1
            assert end.wait_for(1)
    finally:
        writer.close()
    assert [int(record.value) for record in Cluster(secure_broker.address()).read(topic)] == list(range(sent))
