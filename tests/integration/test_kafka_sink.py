"""Alerts and dead letters on topics: there when ``send`` returns, under the session's key, with the same id again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from stream_guard_sinks.kafka import KafkaSink, encode_event

from stream_guard import Alert, Outgoing, SinkError, TopicWriter
from stream_guard.decoding.topic_dead_letters import KafkaDeadLetters
from stream_guard.errors import StoreError
from stream_guard.judge.counts import Counts
from stream_guard.kafka import writer as writer_module
from stream_guard.ports import Record
from stream_guard.settings import KafkaSettings
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.kafka.configuration import PASSWORD, USER

pytestmark = [pytest.mark.kafka, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up sooner than in earnest: what is waited for here never comes."""
    monkeypatch.setattr("stream_guard.kafka.client.ATTEMPT", 1.2)
    monkeypatch.setattr(writer_module, "FIND_MS", 1500)


def alert(number: int = 0, session: str = "s1", **fields: Any) -> Alert:
    return Alert(
        **{
            "alert_id": f"{number:032x}",
            "rule_id": "confirm-refunds",
            "kind": "must_call_before",
            "severity": "error",
            "session_id": session,
            "event_id": "e1",
            "index": 3,
            "time": 1769860800.25,
            "detail": "refund was called before confirm",
            "policy_version": "v1",
            **fields,
        }
    )


@contextmanager
def opened(target: str, kafka: KafkaSettings | None = None) -> Iterator[KafkaSink]:
    sink = KafkaSink.open(target, settings=kafka)
    try:
        yield sink
    finally:
        sink.close()


def test_an_alert_is_a_cloud_event_under_the_key_of_its_session(cluster: Cluster) -> None:
    topic = cluster.create(partitions=4)
    with opened(f"{cluster.address}/{topic}") as sink:
        sink.send([alert(7, evidence={"amount": 5}, reason="ask first")])
    [record] = cluster.read(topic)
    assert record.key == b"s1"
    assert dict(record.headers) == {"content-type": b"application/cloudevents+json; charset=UTF-8"}
    event = json.loads(record.value)
    assert event.pop("data") == {
        "alert_id": f"{7:032x}",
        "rule_id": "confirm-refunds",
        "kind": "must_call_before",
        "severity": "error",
        "session_id": "s1",
        "event_id": "e1",
        "index": 3,
        "time": 1769860800.25,
        "detail": "refund was called before confirm",
        "policy_version": "v1",
        "evidence": {"amount": 5},
        "reason": "ask first",
    }
    assert event == {
        "specversion": "1.0",
        "id": f"{7:032x}",
        "source": "stream-guard",
        "type": "stream_guard.alert",
        "subject": "s1",
        "partitionkey": "s1",
        "datacontenttype": "application/json",
        "time": "2026-01-31T12:00:00.250000Z",
    }


def test_the_same_alert_is_the_same_bytes() -> None:
    assert encode_event(alert(1)) == encode_event(alert(1))


@pytest.mark.parametrize("moment", [None, float("inf"), float("nan"), -1e300])
def test_a_time_that_cannot_be_written_is_left_out(moment: float | None) -> None:
    assert "time" not in json.loads(encode_event(alert(time=moment)))


def test_partitions_are_those_of_the_java_client(cluster: Cluster) -> None:
    # murmur2 of these keys as Java's own tests have it: the low 31 bits, modulo the partitions.
    murmur = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    topic = cluster.create(partitions=7)
    with opened(f"{cluster.address}/{topic}") as sink:
        sink.send([alert(session=key) for key in murmur])
    found = {record.key.decode(): record.partition for record in cluster.read(topic)}
    assert found == {key: (value & 0x7FFFFFFF) % 7 for key, value in murmur.items()}


def test_alerts_of_a_session_stay_in_order(cluster: Cluster) -> None:
    topic = cluster.create(partitions=3)
    alerts = [alert(number, session=f"s{number % 5}") for number in range(2000)]
    with opened(f"{cluster.address}/{topic}") as sink:
        for start in range(0, 2000, 250):
            sink.send(alerts[start : start + 250])
    found: dict[bytes, list[int]] = {}
    for record in cluster.read(topic):
        found.setdefault(record.key, []).append(int(json.loads(record.value)["id"], 16))
    assert {key: sorted(numbers) for key, numbers in found.items()} == found
    assert sum(map(len, found.values())) == 2000


def test_the_servers_may_come_from_the_settings(cluster: Cluster) -> None:
    topic = cluster.create()
    with opened(topic, KafkaSettings(bootstrap_servers=(cluster.address,))) as sink:
        sink.send([alert()])
    assert len(cluster.read(topic)) == 1


def test_a_sink_logs_in_as_the_settings_say(secure_broker: Broker) -> None:
    assert secure_broker.certificates is not None
    cluster = Cluster(secure_broker.address())
    topic = cluster.create()
    kafka = KafkaSettings.model_validate(
        {
            "security_protocol": "SASL_SSL",
            "sasl_username": USER,
            "sasl_password": PASSWORD,
            "ssl_ca_file": secure_broker.certificates.authority,
        }
    )
    with opened(f"{secure_broker.address('SASL_SSL')}/{topic}", kafka) as sink:
        sink.send([alert()])
    assert len(cluster.read(topic)) == 1


@pytest.mark.usefixtures("hurry")
def test_a_topic_that_is_not_there_is_said_when_the_sink_is_opened(cluster: Cluster) -> None:
    with pytest.raises(SinkError, match="there is no answer about the topic 'nowhere'; create it") as refused:
        KafkaSink.open(f"{cluster.address}/nowhere")
    assert not refused.value.retryable


@pytest.mark.long
@pytest.mark.usefixtures("leaky_client")
def test_a_topic_that_was_there_and_gives_no_answer_is_asked_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create()
    with opened(f"{cluster.address}/{topic}") as sink:
        cluster.delete([topic])
        with monkeypatch.context() as hurried:
            hurried.setattr(writer_module, "DELIVERY", 2.0)
            hurried.setattr(writer_module, "FIND_MS", 1500)
            for _ in range(2):  # the producer that knew it, and the next one
                with pytest.raises(SinkError) as refused:
                    sink.send([alert()])
                assert refused.value.retryable
        cluster.recreate(topic)
        sink.send([alert()])
    assert len(cluster.read(topic)) == 1


@pytest.mark.usefixtures("leaky_client", "hurry")
def test_nobody_at_the_address_may_change(cluster: Cluster) -> None:
    with pytest.raises(SinkError, match="no broker answers") as refused:
        KafkaSink.open("127.0.0.1:1/t", settings=KafkaSettings(patience=1.0))
    assert refused.value.retryable


@pytest.mark.parametrize("target", ["a:1/t,u", "a:1/t?from=3", "a:1/", ""])
def test_a_sink_has_one_topic(target: str) -> None:
    with pytest.raises(SinkError, match="topic"):
        KafkaSink.open(target)


@pytest.mark.usefixtures("leaky_client")
@pytest.mark.long
def test_a_broker_that_goes_away_asks_for_another_try_which_succeeds(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "DELIVERY", 2.0)
    cluster = Cluster(own_broker.address())
    topic = cluster.create()
    # As long as a busy machine may need to open it; a refused try takes as long.
    with opened(f"{own_broker.address()}/{topic}", KafkaSettings(patience=10.0)) as sink:
        sink.send([alert(1)])
        own_broker.kill()
        for _ in range(2):
            with pytest.raises(SinkError, match="connection refused") as refused:
                sink.send([alert(2)])
            assert refused.value.retryable
        own_broker.start()
        sink.send([alert(2)])
    found = {json.loads(record.value)["id"] for record in cluster.read(topic)}
    assert found == {alert(1).alert_id, alert(2).alert_id}


def test_an_alert_that_the_topic_does_not_take_is_refused_for_good(cluster: Cluster) -> None:
    topic = cluster.create(max_message_bytes="1000")
    with opened(f"{cluster.address}/{topic}") as sink:
        with pytest.raises(SinkError, match="look at the topic's limits") as refused:
            sink.send([alert(evidence={"text": "x" * 5000})])
        assert not refused.value.retryable
        sink.send([alert()])
    assert len(cluster.read(topic)) == 1


def letters(cluster: Cluster, topic: str) -> KafkaDeadLetters:
    return KafkaDeadLetters(TopicWriter.open(f"{cluster.address}/{topic}"), Counts(), format_name="native")


def test_a_dead_letter_is_the_record_as_it_came_with_its_reason_and_origin(cluster: Cluster) -> None:
    topic = cluster.create()
    buried = letters(cluster, topic)
    buried.add(Record(b"\xff{broken", "events/3", 17, key=b"s1", headers=(("trace", b"t1"),)), "not JSON: \ud800")
    assert buried.flush() == 0
    [record] = cluster.read(topic)
    assert (record.value, record.key) == (b"\xff{broken", b"s1")
    assert dict(record.headers) == {
        "trace": b"t1",
        "stream_guard_reason": b"not JSON: ?",
        "stream_guard_class": b"decode",
        "stream_guard_origin": b"events/3",
        "stream_guard_offset": b"17",
    }
    assert buried.total == 1
    assert buried.summary() == ["1 x not JSON: \ud800 (first at events/3 @17)"]
    buried.close()


def test_a_record_that_was_cut_says_its_size(cluster: Cluster) -> None:
    topic = cluster.create()
    buried = letters(cluster, topic)
    buried.add(Record(b"head", "events/0", 1, truncated=20_000_000), "too large")
    buried.close()
    [record] = cluster.read(topic)
    headers = dict(record.headers)
    assert (headers["stream_guard_class"], headers["stream_guard_size"]) == (b"oversize", b"20000000")


def test_a_letter_that_the_topic_does_not_take_whole_is_sent_as_its_head(cluster: Cluster) -> None:
    topic = cluster.create(max_message_bytes="100000")
    buried = letters(cluster, topic)
    buried.add(Record(b"1", "events/0", 1), "small")
    buried.add(Record(b"x" * 300_000, "events/0", 2), "large")
    buried.add(Record(b"3", "events/0", 3), "small")
    buried.close()
    found = {record.value[:1]: record for record in cluster.read(topic)}
    assert set(found) == {b"1", b"x", b"3"}
    assert len(found[b"x"].value) == 65536
    assert dict(found[b"x"].headers)["stream_guard_size"] == b"300000"


@pytest.mark.usefixtures("leaky_client")
@pytest.mark.long
@pytest.mark.parametrize("is_nameless", [False, True], ids=["with an id", "before it had an id"])
def test_letters_that_cannot_be_sent_stop_the_run_and_are_not_forgotten(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch, *, is_nameless: bool
) -> None:
    monkeypatch.setattr(writer_module, "DELIVERY", 2.0)
    cluster = Cluster(own_broker.address())
    topic = cluster.create()
    writer = TopicWriter.open(f"{own_broker.address()}/{topic}")
    buried = KafkaDeadLetters(writer, Counts(), format_name="native")
    own_broker.kill()
    assert writer._connection is not None
    producer = writer._connection.client
    if is_nameless:
        producer._transaction_manager.reset_producer_id()
    buried.add(Record(b"1", "events/0", 1), "broken")
    with pytest.raises(StoreError, match=r"dead letters cannot be written.*nothing is read until they can"):
        buried.flush()
    producer._sender.join(60)
    assert not producer._sender.is_alive()
    own_broker.start()
    buried.close()
    assert [record.value for record in cluster.read(topic)] == [b"1"]


def test_a_writer_with_nothing_to_send_does_not_wait(cluster: Cluster) -> None:
    topic = cluster.create()
    writer = TopicWriter.open(cluster.url(topic))
    writer.send([])
    writer.send([Outgoing(None, b"1")])
    writer.close()
    writer.close()
    assert len(cluster.read(topic)) == 1
