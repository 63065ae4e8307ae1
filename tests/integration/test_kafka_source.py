"""Topics as a source: every record once and in order, exact ranges, and a broker that may fail."""

from __future__ import annotations

import logging
import time

import pytest
from kafka import KafkaProducer

from stream_guard.cli.progress import extent_of
from stream_guard.errors import SourceError
from stream_guard.ports import Source
from stream_guard.settings import DecodeSettings, KafkaSettings, load_settings
from stream_guard.sources import is_endless, open_source
from stream_guard.sources import kafka as source_module
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.kafka.reading import numbers, opened, read, take

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.usefixtures("hurried_source"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


def offsets(source: Source) -> dict[str, int]:
    """The positions of a source, without the ids of its topics."""
    return {origin: at for origin, at in source.positions().items() if "/" in origin}


def test_a_record_comes_with_its_key_its_headers_its_time_and_its_place(cluster: Cluster) -> None:
    topic = cluster.create(partitions=2)
    row = Row(b'{"a": 1}', b"s1", 1_767_600_000_123, 1, (("ce_id", b"7"), ("empty", b"")))
    cluster.fill(topic, [row, Row(None, b"s2", 1_767_600_001_000, 1)])
    [first, taken_back] = read(cluster.url(topic))
    assert (first.value, first.key, first.headers) == (row.value, b"s1", row.headers)
    assert (first.origin, first.position, first.time) == (f"{topic}/1", 0, 1_767_600_000.123)
    assert (taken_back.value, taken_back.key, taken_back.position) == (b"", b"s2", 1)


def test_several_topics_are_read_each_record_once(cluster: Cluster) -> None:
    topics = [cluster.create(partitions=2), cluster.create(partitions=1)]
    for start, topic in enumerate(topics):
        cluster.fill(topic, [Row(str(number).encode()) for number in range(start, 3000, 2)])
    assert sorted(numbers(read(cluster.url(*topics)))) == list(range(3000))


def test_partitions_are_merged_by_time_and_keep_their_own_order(cluster: Cluster) -> None:
    topic = cluster.create(partitions=3)
    rows = [Row(str(number).encode(), time_ms=1_000_000 + number, partition=number * 7 % 3) for number in range(20_000)]
    cluster.fill(topic, rows)
    assert numbers(read(cluster.url(topic))) == list(range(20_000))


def test_a_partition_far_behind_does_not_let_the_others_fill_the_memory(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_guard.sources.kafka.MAX_WAITING", 200)
    topic = cluster.create(partitions=2)
    early = [Row(str(number).encode(), time_ms=1_000 + number, partition=0) for number in range(5000)]
    later = [Row(str(number).encode(), time_ms=900_000 + number, partition=1) for number in range(5000, 10_000)]
    cluster.fill(topic, [*later, *early])
    with opened(cluster.url(topic)) as source:
        seen, most = [], 0
        for record in source:
            if record is not None:
                seen.append(int(record.value))
                most = max(most, *(len(queue) for queue in source._merger._queues.values()))  # type: ignore[attr-defined]  # how much waits is not public
    assert seen == list(range(10_000))
    assert most <= 200 + source_module.MAX_RECORDS


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_topics_can_be_read(cluster: Cluster, codec: str) -> None:
    topic = cluster.create()
    cluster.fill(topic, [Row(str(number).encode()) for number in range(500)], compression_type=codec)
    assert numbers(read(cluster.url(topic))) == list(range(500))


def test_a_record_over_the_limit_is_cut_and_the_next_one_is_whole(cluster: Cluster) -> None:
    topic = cluster.create(max_message_bytes=str(32 << 20))
    cluster.fill(topic, [Row(b"1"), Row(b"x" * (20 << 20)), Row(b"2")])
    [first, large, last] = read(cluster.url(topic), limits=DecodeSettings(max_record_bytes=1 << 20))
    assert (first.value, last.value) == (b"1", b"2")
    assert large.truncated == 20 << 20
    assert large.value == b"x" * 65536


class TestRange:
    """Ten records in each of two partitions, a second apart."""

    @pytest.fixture
    def topic(self, cluster: Cluster) -> str:
        topic = cluster.create(partitions=2)
        rows = [
            Row(str(number).encode(), time_ms=1_767_600_000_000 + number * 1000, partition=number % 2)
            for number in range(20)
        ]
        cluster.fill(topic, rows)
        return topic

    def test_offsets_are_from_and_up_to(self, cluster: Cluster, topic: str) -> None:
        assert numbers(read(cluster.url(topic, query="from=2&to=4"))) == [4, 5, 6, 7]

    def test_one_partition(self, cluster: Cluster, topic: str) -> None:
        assert numbers(read(cluster.url(topic, query="partitions=1&from=8"))) == [17, 19]

    def test_times_are_from_and_up_to(self, cluster: Cluster, topic: str) -> None:
        query = "from=2026-01-05T08:00:05Z&to=2026-01-05T09:00:09+01:00"
        assert numbers(read(cluster.url(topic, query=query))) == [5, 6, 7, 8]

    def test_a_time_between_two_records_means_the_next_one(self, cluster: Cluster, topic: str) -> None:
        assert numbers(read(cluster.url(topic, query="from=2026-01-05T08:00:17.500Z"))) == [18, 19]

    def test_a_time_after_the_last_record_is_the_end(self, cluster: Cluster, topic: str) -> None:
        assert read(cluster.url(topic, query="from=2027-01-01T00:00:00Z")) == []
        assert len(read(cluster.url(topic, query="to=2027-01-01T00:00:00Z"))) == 20

    def test_latest_is_what_comes_from_now_on(self, cluster: Cluster, topic: str) -> None:
        with opened(cluster.url(topic, query="from=latest"), follow=True) as source:
            cluster.fill(topic, [Row(b"100", partition=0)])
            assert numbers(take(source, 1)) == [100]

    def test_a_range_that_is_read_twice_comes_in_the_same_order(self, cluster: Cluster, topic: str) -> None:
        first, second = (read(cluster.url(topic, query="from=1&to=9")) for _ in range(2))
        assert first == second
        assert len(first) == 16

    def test_what_is_written_after_the_start_is_not_part_of_it(self, cluster: Cluster, topic: str) -> None:
        with opened(cluster.url(topic)) as source:
            cluster.fill(topic, [Row(b"100", partition=0)])
            assert numbers(record for record in source if record) == list(range(20))

    @pytest.mark.parametrize(
        ("query", "reason"),
        [
            ("from=yesterday", "from=yesterday is not understood"),
            ("to=2026-02-30", "no time that exists"),
            ("since=3", "unknown option 'since'"),
            ("partitions=a", "no numbers"),
            ("partitions=7", "has 2 partitions, and no 7"),
            ("gaps=maybe", "neither stop nor accept"),
        ],
    )
    def test_what_is_not_understood_is_refused(self, cluster: Cluster, topic: str, query: str, reason: str) -> None:
        with pytest.raises(SourceError, match=reason):
            open_source(cluster.url(topic, query=query))

    def test_an_end_cannot_be_followed(self, cluster: Cluster, topic: str) -> None:
        with pytest.raises(SourceError, match="cannot be followed"):
            open_source(cluster.url(topic, query="to=4"), follow=True)


def test_a_run_follows_a_topic_unless_it_has_an_end() -> None:
    assert is_endless("kafka://a:1/t")
    assert not is_endless("kafka://a:1/t?from=3&to=latest")


def test_a_source_goes_on_where_an_earlier_one_stopped(cluster: Cluster) -> None:
    topic = cluster.create(partitions=3)
    cluster.fill(topic, [Row(str(number).encode(), time_ms=number, partition=number % 3) for number in range(5000)])
    with opened(cluster.url(topic), follow=True) as source:
        before, positions = numbers(take(source, 1234)), dict(source.positions())
    rest = numbers(read(cluster.url(topic, query="from=latest"), positions=positions))
    assert sorted(before + rest) == list(range(5000))


def test_partitions_that_are_added_are_read_from_their_beginning(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "LIST_PARTITIONS", 0.5)
    topic = cluster.create(partitions=1)
    with opened(cluster.url(topic, query="from=latest"), follow=True) as source:
        cluster.fill(topic, [Row(b"1", partition=0)])
        assert numbers(take(source, 1)) == [1]
        cluster.add_partitions(topic, 2)
        cluster.fill(topic, [Row(b"2", partition=1)])
        assert numbers(take(source, 1)) == [2]
        assert offsets(source) == {f"{topic}/0": 1, f"{topic}/1": 1}
        positions = {f"{topic}/0": 1}
    assert numbers(read(cluster.url(topic, query="from=latest"), positions=positions)) == [2]


def test_records_of_an_aborted_transaction_are_passed_over_and_the_end_is_found(cluster: Cluster) -> None:
    topic = cluster.create()
    producer = KafkaProducer(bootstrap_servers=cluster.address, transactional_id=topic)
    producer.init_transactions()
    for value, commit in ((b"1", True), (b"2", False), (b"3", True), (b"4", False)):
        producer.begin_transaction()
        producer.send(topic, value)
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()
    assert numbers(read(cluster.url(topic))) == [1, 3]


def test_records_that_are_gone_stop_the_run_until_that_is_accepted(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.create()
    cluster.fill(topic, [Row(str(number).encode()) for number in range(10)])
    cluster.forget_before(topic, 6)
    positions = {f"{topic}/0": 3}
    with pytest.raises(SourceError, match=r"next record to read is 3, and those before 6 are gone.*gaps=accept"):
        open_source(cluster.url(topic), positions=positions)
    with caplog.at_level(logging.WARNING):
        assert numbers(read(cluster.url(topic, query="gaps=accept"), positions=positions)) == [6, 7, 8, 9]
    assert "those before 6 are gone" in caplog.text
    with pytest.raises(SourceError, match="the partition ends at 10: it was made anew"):
        open_source(cluster.url(topic), positions={f"{topic}/0": 11})


def test_records_that_are_deleted_while_they_are_waited_for_stop_the_run(cluster: Cluster) -> None:
    topic = cluster.create()
    cluster.fill(topic, [Row(str(number).encode()) for number in range(10)])
    with opened(cluster.url(topic), follow=True) as source:
        # Nothing is fetched before the first record is asked for.
        cluster.forget_before(topic, 6)
        with pytest.raises(SourceError, match="those before 6 are gone"):
            take(source, 1)


def test_a_topic_that_is_not_there_is_said_and_not_made(cluster: Cluster) -> None:
    topic = cluster.create()
    for _ in range(2):
        with pytest.raises(SourceError, match=f"no topic '{topic}x' that we may read; did you mean '{topic}'"):
            open_source(cluster.url(f"{topic}x"))


def test_a_topic_that_was_made_anew_is_another_one_however_many_records_it_has(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "LIST_PARTITIONS", 1.0)
    topic = cluster.create()
    cluster.fill(topic, [Row(str(number).encode()) for number in range(30)])
    with opened(cluster.url(topic), follow=True) as source:
        take(source, 30)
        positions = dict(source.positions())
        cluster.recreate(topic)
        cluster.fill(topic, [Row(str(number).encode()) for number in range(100, 180)])
        with pytest.raises(SourceError, match="made anew"):
            take(source, 80)
    with pytest.raises(SourceError, match=rf"{topic}: .*deleted and made anew.*gaps=accept"):
        read(cluster.url(topic), positions=positions)
    with opened(cluster.url(topic, query="gaps=accept"), positions=positions) as source:
        assert numbers(take(source, 80)) == list(range(100, 180))
        positions = dict(source.positions())
    assert read(cluster.url(topic), positions=positions) == []


@pytest.mark.usefixtures("leaky_client")
def test_nobody_at_the_address_is_said_after_the_patience() -> None:
    began = time.monotonic()
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1: no broker answers: connection refused"):
        open_source("kafka://127.0.0.1:1/t", kafka=KafkaSettings(patience=2.0))
    assert time.monotonic() - began < 10


@pytest.mark.long
def test_a_broker_that_restarts_in_the_middle_costs_time_and_no_record(
    own_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(own_broker.address())
    topic = cluster.create(partitions=3)
    cluster.fill(topic, [Row(str(number).encode()) for number in range(5000)])
    with opened(cluster.url(topic), follow=True) as source, caplog.at_level(logging.WARNING, "stream_guard"):
        seen = numbers(take(source, 2000))
        own_broker.kill()
        records = iter(source)
        end = time.monotonic() + 60
        while "no answer: connection refused" not in caplog.text and time.monotonic() < end:
            if (record := next(records)) is not None:
                seen.append(int(record.value))
        own_broker.start()
        cluster.fill(topic, [Row(str(number).encode()) for number in range(5000, 6000)])
        while len(seen) < 6000:
            if (record := next(records)) is not None:
                seen.append(int(record.value))
                assert "answers again" in caplog.text, (
                    "whoever sends records is back, or the next outage is not timed anew"
                )
        assert sorted(seen) == list(range(6000))


@pytest.mark.usefixtures("leaky_client")
@pytest.mark.long
def test_a_broker_that_stays_away_ends_the_run_with_what_to_do(own_broker: Broker) -> None:
    cluster = Cluster(own_broker.address())
    topic = cluster.create()
    cluster.fill(topic, [Row(b"1")])
    with opened(cluster.url(topic), follow=True, kafka=KafkaSettings(patience=3.0)) as source:
        take(source, 1)
        own_broker.kill()
        with pytest.raises(SourceError, match=r"no broker has answered for .* s: connection refused; nothing is lost"):
            take(source, 1)
        assert offsets(source) == {f"{topic}/0": 1}


def test_the_lag_is_what_is_there_and_was_not_read_and_grows_while_nothing_is_read(cluster: Cluster) -> None:
    topic = cluster.create(partitions=2)
    cluster.fill(topic, [Row(b"%d" % number, partition=number % 2) for number in range(100)])
    with opened(cluster.url(topic), follow=True) as source:
        assert isinstance(source, source_module.KafkaSource)
        assert source.lag() == 100
        take(source, 40)
        assert source.lag() == 60
        take(source, 60)
        assert source.lag() == 0
        assert source.spans() == {f"{topic}/0": (0, 50), f"{topic}/1": (0, 50)}


def test_the_extent_of_a_range_is_known_before_it_is_read(cluster: Cluster) -> None:
    topic = cluster.create()
    cluster.fill(topic, [Row(b"%d" % number) for number in range(100)])
    extent = extent_of(cluster.url(topic, query="from=20&to=70"), load_settings())
    assert (extent.total, extent.done({f"{topic}/0": 45})) == (50, 25)
