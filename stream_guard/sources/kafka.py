"""Records from the partitions of topics, without a consumer group: for one machine and small streams."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from heapq import heapify, heappop, heapreplace
from typing import Any, Final, Literal, Self, TypeAlias

from stream_guard.errors import SourceError
from stream_guard.kafka.address import Address, parse_address
from stream_guard.kafka.client import BrokerError, guard_consumer, open_consumer
from stream_guard.kafka.unpacking import PoisonedBatch, make_record
from stream_guard.ports import Record
from stream_guard.settings import KafkaSettings
from stream_guard.sources.splitting import HEAD

# Limits on the buffered records of one partition.
MAX_WAITING: Final = 5_000
MAX_WAITING_BYTES: Final = 16 << 20


class RecordMerger:
    """Merges the records of several partitions by time; the order inside a partition stays.

    It buffers records until the earlier ones of the other partitions are there.

    Partitions are fetched at different speeds. Without this, one of them could be hours of event time ahead
    of another, and its clock would close the sessions of the other as idle.
    """

    def __init__(self) -> None:
        self._queues: dict[str, deque[Record]] = {}
        self._bytes: dict[str, int] = {}

    def add(self, origin: str, records: Sequence[Record]) -> None:
        """Take records of one origin, in their order."""
        self._queues.setdefault(origin, deque()).extend(records)
        self._bytes[origin] = self._bytes.get(origin, 0) + sum(len(record.value) for record in records)

    def holds(self, origin: str) -> bool:
        """Whether records of the origin are waiting."""
        return bool(self._queues.get(origin))

    def fill_of(self, origin: str) -> float:
        """How full the buffer of the origin is; 1 is full."""
        return max(
            len(self._queues.get(origin, ())) / MAX_WAITING,
            self._bytes.get(origin, 0) / MAX_WAITING_BYTES,
        )

    def take(self, awaited: Set[str]) -> Iterator[Record]:
        """Yield records in order, until an awaited origin has none left in the buffer."""
        if any(not self.holds(origin) for origin in awaited):
            return
        # By origin where times are equal: the order must not depend on which was fetched first.
        heads = [(queue[0].time or 0.0, origin, queue) for origin, queue in self._queues.items() if queue]
        heapify(heads)
        while heads:
            _, origin, queue = heads[0]
            record = queue.popleft()
            self._bytes[origin] -= len(record.value)
            yield record
            if queue:
                heapreplace(heads, (queue[0].time or 0.0, origin, queue))
            else:
                heappop(heads)
                if origin in awaited:
                    return


# Which part of a topic is read: between two offsets, between two times, or all of it.

# An offset is an int, counted from the end where it is negative; a time is a float, in seconds since 1970.
RangeBound: TypeAlias = Literal["earliest", "latest"] | int | float
# A partition as the client knows it: a named tuple of topic and number.
Partition: TypeAlias = tuple[str, int]

OPTIONS: Final = ("from", "to", "partitions", "gaps")
_TIMEOUT_MS: Final = 15_000
_WRITTEN_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?")

_logger = logging.getLogger(__name__)


def origin_of(partition: Partition) -> str:
    """Return the name of a partition in positions."""
    return f"{partition[0]}/{partition[1]}"


@dataclass(frozen=True, slots=True)
class RequestedRange:
    """The part of a topic that an address asks for."""

    start: RangeBound = "earliest"
    stop: RangeBound | None = None
    partitions: frozenset[int] | None = None  # None: all of them
    accept_gaps: bool = False

    @classmethod
    def parse(cls, address: Address) -> Self:
        """Read the options of an address, or raise SourceError."""
        options = address.options
        for name in options:
            if name not in OPTIONS:
                raise SourceError(f"{address}: unknown option {name!r}; there are {', '.join(OPTIONS)}")
        if (gaps := options.get("gaps", "stop")) not in ("stop", "accept"):
            raise SourceError(f"{address}: gaps={gaps} is neither stop nor accept")
        chosen = options.get("partitions")
        if chosen is not None and not re.fullmatch(r"\d+(,\d+)*", chosen):
            raise SourceError(f"{address}: partitions={chosen} are no numbers; write partitions=0,3")
        return cls(
            start=_parse_bound(address, "from", options.get("from", "earliest")),
            stop=_parse_bound(address, "to", options["to"]) if "to" in options else None,
            partitions=None if chosen is None else frozenset(map(int, chosen.split(","))),
            accept_gaps=gaps == "accept",
        )


def _parse_bound(address: Address, name: str, text: str) -> RangeBound:
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if _WRITTEN_TIME.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise SourceError(f"{address}: {name}={text} is no time that exists: {error}") from None
        # A time without a zone would mean something else on another machine.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    raise SourceError(
        f"{address}: {name}={text} is not understood; write earliest, latest, an offset, "
        "-100 for the last hundred of each partition, or a time like 2026-01-31T12:00:00Z (UTC where no zone is given)"
    )


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets to read of one partition: from ``start`` up to ``stop``, exclusive; None has no end."""

    start: int
    stop: int | None
    end: int  # the end offset when the range was resolved


def resolve(
    consumer: Any,
    partitions: Collection[Partition],
    requested: RequestedRange,
    positions: Mapping[str, int],
    *,
    follow: bool,
) -> dict[Partition, OffsetRange]:
    """Return the offsets to read: from the positions of an earlier run, or from the start that the address names.

    Raises SourceError where records that must be read are deleted, unless gaps are accepted.
    """
    first = consumer.beginning_offsets(list(partitions), timeout_ms=_TIMEOUT_MS)
    last = consumer.end_offsets(list(partitions), timeout_ms=_TIMEOUT_MS)
    starts = _offsets(consumer, requested.start, first, last)
    stops = last if requested.stop is None else _offsets(consumer, requested.stop, first, last)
    # A partition without a position in a known topic is new: it is read from its first record.
    known = {origin.rpartition("/")[0] for origin in positions if "/" in origin}
    ranges = {}
    for partition in partitions:
        origin = origin_of(partition)
        start = positions.get(origin, first[partition] if partition[0] in known else starts[partition])
        if origin in positions:
            start = _check_gap(origin, start, first[partition], last[partition], accept=requested.accept_gaps)
        elif start < first[partition]:
            _logger.warning("%s: records before offset %d are gone; it is read from there", origin, first[partition])
            start = first[partition]
        stop = None if follow else min(stops[partition], last[partition])
        ranges[partition] = OffsetRange(start, stop, last[partition])
    return ranges


def identity_of(topic: str, topic_id: object) -> str:
    """Return the entry of positions that names a topic by its id; no name of a topic has a #."""
    return f"{topic}#{topic_id}"


def same_topic(topic: str, topic_id: object, positions: Mapping[str, int], *, accept: bool) -> Mapping[str, int]:
    """Return the positions of a topic, from its start where it is another topic than the one that they belong to.

    Offsets say nothing about a topic that was deleted and made anew. SourceError unless gaps are accepted.
    """
    before = [name for name in positions if name.startswith(f"{topic}#")]
    if topic_id is None or not before or identity_of(topic, topic_id) in before:
        return positions
    what = "this is not the topic that was read before: it was deleted and made anew"
    if not accept:
        raise SourceError(
            f"{topic}: {what}; to read it from its first record, accept that with ?gaps=accept, or start with another "
            "checkpoint"
        )
    _logger.warning("%s: %s; it is read from its first record", topic, what)
    return {name: 0 if name.startswith(f"{topic}/") else at for name, at in positions.items() if name not in before}


def _offsets(
    consumer: Any, bound: RangeBound, first: Mapping[Partition, int], last: Mapping[Partition, int]
) -> Mapping[Partition, int]:
    if bound == "earliest":
        return first
    if bound == "latest":
        return last
    if isinstance(bound, int):
        return {
            partition: bound if bound >= 0 else max(first[partition], last[partition] + bound) for partition in first
        }
    found = consumer.offsets_for_times(dict.fromkeys(first, round(bound * 1000)), timeout_ms=_TIMEOUT_MS)
    # No record is that late: read from the end.
    return {partition: last[partition] if at is None else at.offset for partition, at in found.items()}


def _check_gap(origin: str, start: int, first: int, last: int, *, accept: bool) -> int:
    if first <= start <= last:
        return start
    what = (
        f"the next record to read is {start}, and those before {first} are gone"
        if start < first
        else f"the next record to read is {start}, and the partition ends at {last}: it was made anew, or lost records"
    )
    if not accept:
        raise SourceError(f"{origin}: {what}; accept that with ?gaps=accept, or start with another checkpoint")
    _logger.warning("%s: %s; it is read from %d", origin, what, first)
    return first


POLL_MS: Final = 200  # how long one poll waits for records
MAX_RECORDS: Final = 2_000  # of one poll
ASK_MS: Final = 2_000
QUIET: Final = 5.0  # seconds without records, after which the broker is asked whether there are any
WAIT: Final = 10.0  # seconds that a followed topic waits for a partition that has records and returns none
LIST_PARTITIONS: Final = 30.0  # seconds between two searches for added partitions


class KafkaSource:
    """The records of some topics; each partition has its own origin, ``topic/partition``, and offsets as positions.

    Partitions are assigned by hand, and positions are kept in our own checkpoint, so that states and positions are
    written in one transaction and nothing is written to the broker. Records of aborted transactions are skipped.
    Partitions are merged by the times of their records, so a range has the same order each time it is read. The source
    waits for a broker that is away; SourceError when that takes longer than the patience.
    """

    def __init__(
        self,
        address: Address,
        kafka: KafkaSettings,
        *,
        follow: bool,
        limit: int,
        positions: Mapping[str, int],
    ) -> None:
        self._address = address
        self._requested = RequestedRange.parse(address)
        if follow and self._requested.stop is not None:
            raise SourceError(f"{address}: to={address.options['to']} is an end, so it cannot be followed")
        self._patience = kafka.patience
        self._follow = follow
        self._limit = limit
        self._merger = RecordMerger()
        self._identities: dict[str, int] = {}  # the ids of the topics, as positions
        self._next: dict[str, int] = {}  # by origin: offset of the next record to yield, for the checkpoint
        self._fetched: dict[Any, int] = {}  # by partition: offset to fetch next
        self._ranges: dict[Any, OffsetRange] = {}
        self._ends: dict[Any, int] = {}  # by partition: last known end offset
        self._assigned: set[Any] = set()  # partitions that are fetched from now
        self._skipped: set[Any] = set()  # partitions that returned nothing although they have records
        self._quiet = 0.0  # seconds without records
        self._away_since: float | None = None
        self._blocked_since: float | None = None
        self._listed_at = time.monotonic()
        try:
            self._connection = open_consumer(address.servers, kafka, refresh=LIST_PARTITIONS)
        except BrokerError as error:
            raise SourceError(str(error)) from error
        self._consumer: Any = self._connection.client
        self._budget = guard_consumer(self._consumer)
        try:
            found = self._find_partitions()
            self._assign(found, self._recognise(positions, accept=self._requested.accept_gaps))
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Record | None]:
        while self._is_unfinished():
            found = self._fetch()
            for record in self._merger.take(self._awaited()):
                # Before the yield: a checkpoint taken now must not repeat this record.
                self._next[record.origin] = record.position + 1
                yield record
            if not found:
                yield None
                self._check_broker()
            self._add_new_partitions()

    def positions(self) -> Mapping[str, int]:
        """The offset of the next record, by topic and partition; and 0, by the topic's id."""
        return self._next | self._identities

    def spans(self) -> Mapping[str, tuple[int, int]]:
        """The start and stop offset of each partition; a followed one stops at its present end."""
        return {
            origin_of(partition): (chosen.start, max(chosen.start, chosen.end if chosen.stop is None else chosen.stop))
            for partition, chosen in self._ranges.items()
        }

    def lag(self) -> int:
        """The number of records still to be judged, up to the last known end offset, or up to the stop."""
        waiting = 0
        for partition, end in self._ends.items():
            stop = self._ranges[partition].stop
            waiting += max(0, (end if stop is None else stop) - self._next[origin_of(partition)])
        return waiting

    def close(self) -> None:
        """Leave the cluster."""
        self._connection.close(autocommit=False, timeout_ms=1000)

    def _find_partitions(self) -> list[Any]:
        from kafka import TopicPartition  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

        found = []
        for topic in self._address.topics:
            numbers = self._consumer.partitions_for_topic(topic)
            if not numbers:
                near = get_close_matches(topic, self._consumer.topics(), 1)
                raise SourceError(
                    f"{self._address}: there is no topic {topic!r} that we may read"
                    + (f"; did you mean {near[0]!r}?" if near else "; create it, or ask for the right to read it")
                )
            if self._requested.partitions is not None and (missing := self._requested.partitions - numbers):
                raise SourceError(f"{self._address}: {topic} has {len(numbers)} partitions, and no {min(missing)}")
            found += [TopicPartition(topic, number) for number in sorted(self._requested.partitions or numbers)]
        return found

    def _recognise(self, positions: Mapping[str, int], *, accept: bool) -> Mapping[str, int]:
        """Return the positions that count for the topics as they are now; SourceError when one was made anew."""
        for topic in self._address.topics:
            topic_id = self._consumer._cluster.topic_id(topic)  # noqa: SLF001  # there is no other way to it
            positions = same_topic(topic, topic_id, positions, accept=accept)
            if topic_id is not None:
                self._identities[identity_of(topic, topic_id)] = 0
        return positions

    def _assign(self, partitions: Sequence[Any], positions: Mapping[str, int]) -> None:
        from kafka.errors import KafkaError  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

        try:
            ranges = resolve(self._consumer, partitions, self._requested, positions, follow=self._follow)
        except KafkaError as error:
            raise SourceError(f"{self._address}: its offsets cannot be looked up: {error}") from error
        self._ranges |= ranges
        for partition, chosen in ranges.items():
            self._fetched[partition] = self._next[origin_of(partition)] = chosen.start
            self._ends[partition] = chosen.end

    def _is_unfinished(self) -> bool:
        return self._follow or any(
            self._has_more(partition) or self._merger.holds(origin_of(partition)) for partition in self._fetched
        )

    def _fetch(self) -> bool:
        """Poll once and hand the records to the merger; False when there were none."""
        from kafka.errors import KafkaError  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

        began = time.monotonic()
        try:
            self._assign_unfilled()
            self._budget.renew()
            batches = self._consumer.poll(timeout_ms=POLL_MS, max_records=MAX_RECORDS)
            self._note_progress(batches)
        except KafkaError as error:
            self._handle_error(error)
            batches = {}
        for partition, records in batches.items():
            origin, stop = origin_of(partition), self._ranges[partition].stop
            kept = [self._convert(origin, record) for record in records if stop is None or _begin_of(record) < stop]
            self._merger.add(origin, kept)
            self._skipped.discard(partition)
        if batches:
            self._quiet = 0.0
            self._note_answer()
        else:
            self._quiet += time.monotonic() - began
        return bool(batches)

    def _assign_unfilled(self) -> None:
        """Assign only the partitions whose buffer in the merger has room.

        The others are not paused: kafka-python 3.0 loses the records that it had fetched from a partition when that
        was paused.
        """
        unfilled = {
            partition
            for partition in self._fetched
            if self._has_range_left(partition)
            and self._merger.fill_of(origin_of(partition)) < (1.0 if partition in self._assigned else 0.5)
        }
        if unfilled == self._assigned or not unfilled:
            return
        self._consumer.assign(sorted(unfilled))
        for partition in unfilled - self._assigned:
            self._consumer.seek(partition, self._fetched[partition])
        self._assigned = unfilled

    def _has_range_left(self, partition: Any) -> bool:
        stop = self._ranges[partition].stop
        return stop is None or self._fetched[partition] < stop

    def _note_progress(self, batches: Mapping[Any, Sequence[Any]]) -> None:
        for partition in self._assigned:
            if partition in batches:
                self._fetched[partition] = batches[partition][-1].offset + 1
            elif (at := self._consumer.position(partition, timeout_ms=0)) is not None:
                # The end of a transaction has an offset, but no record.
                self._fetched[partition] = at
            self._ends[partition] = max(self._ends[partition], self._consumer.highwater(partition) or 0)

    def _convert(self, origin: str, record: Any) -> Record:
        written = record.timestamp / 1000 if record.timestamp >= 0 else None
        return make_record(record, origin, self._limit, min(HEAD, self._limit), written)

    def _awaited(self) -> set[str]:
        """Return the origins that have more records: the merger waits for them."""
        coming = [partition for partition in self._fetched if self._has_more(partition)]
        empty = [partition for partition in coming if not self._merger.holds(origin_of(partition))]
        now = time.monotonic()
        if not empty or self._away_since is not None:
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        elif self._follow and now - self._blocked_since > WAIT and len(empty) < len(self._fetched):
            names = ", ".join(map(origin_of, empty))
            _logger.warning("%s: nothing has come from %s for %.0f s; going on without", self._address, names, WAIT)
            self._skipped.update(empty)
        return {origin_of(partition) for partition in coming if partition not in self._skipped}

    def _has_more(self, partition: Any) -> bool:
        if partition in self._skipped:
            return False
        stop = self._ranges[partition].stop
        return self._fetched[partition] < (self._ends[partition] if stop is None else stop)

    def _check_broker(self) -> None:
        """When no records come, ask the broker for the end offsets; SourceError when it is away for too long."""
        from kafka.errors import KafkaError  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

        if self._quiet < QUIET and self._away_since is None:
            return
        try:
            # A client that fetches nothing does not learn of new records; the end offsets show them.
            self._ends |= self._consumer.end_offsets(list(self._fetched), timeout_ms=ASK_MS)
        except KafkaError as error:
            self._wait_for_broker(self._connection.log.last() or str(error))
            return
        if not self._note_answer() and not self._follow and self._quiet > self._patience:
            raise SourceError(
                f"{self._address}: no record has come for {self._quiet:.0f} s, though there are some at "
                + ", ".join(f"{origin_of(partition)} @{at}" for partition, at in self._fetched.items())
            )
        if self._follow:
            self._quiet = 0.0

    def _note_answer(self) -> bool:
        """Record that the broker answers; True when it was away until now."""
        if self._away_since is None:
            return False
        _logger.warning("%s: answers again after %.0f s", self._address, time.monotonic() - self._away_since)
        self._away_since = None
        self._connection.log.errors.clear()
        return True

    def _wait_for_broker(self, reason: str) -> None:
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now - self._quiet
            _logger.warning("%s: no answer: %s; trying for %.0f s", self._address, reason, self._patience)
        elif now - self._away_since > self._patience:
            raise SourceError(
                f"{self._address}: no broker has answered for {now - self._away_since:.0f} s: {reason}; "
                "nothing is lost: start again with the same checkpoint when it is back"
            )

    def _add_new_partitions(self) -> None:
        """Add the partitions that a followed topic has gained."""
        now = time.monotonic()
        if (
            not self._follow
            or self._requested.partitions
            or self._away_since
            or now - self._listed_at < LIST_PARTITIONS
        ):
            return
        self._listed_at = now
        self._recognise(self._identities, accept=False)
        if added := [partition for partition in self._find_partitions() if partition not in self._fetched]:
            _logger.warning("%s: new partitions: %s", self._address, ", ".join(map(origin_of, added)))
            self._assign(added, self._next)

    def _handle_error(self, error: Exception) -> None:
        """Raise SourceError for an error that lasts; continue behind an accepted gap; ignore an error that may pass."""
        from kafka import errors  # noqa: PLC0415  # an extra, see stream_guard.kafka.client

        if isinstance(error, errors.RetriableError) and not isinstance(error, errors.CorruptRecordError):
            return
        if isinstance(error, errors.OffsetOutOfRangeError):
            # Retention has deleted records before they were read: resolve the offsets again, or say why not.
            fetched = {origin_of(partition): at for partition, at in self._fetched.items()}
            for partition, chosen in resolve(
                self._consumer, list(self._fetched), self._requested, fetched, follow=self._follow
            ).items():
                if chosen.start != self._fetched[partition]:
                    self._fetched[partition] = chosen.start
                    self._assigned.discard(partition)  # so that it is assigned and sought again
            return
        raise SourceError(f"{self._address}: cannot be read any further: {error}") from error


def _begin_of(record: Any) -> int:
    """Return the offset of a record, or the first one of the batch that it stands for."""
    value = record.value
    return int(value.first if type(value) is PoisonedBatch else record.offset)


def open_kafka(
    target: str, kafka: KafkaSettings | None, *, follow: bool, limit: int, positions: Mapping[str, int]
) -> KafkaSource:
    """Return the source for an address; ``RequestedRange`` has its options."""
    try:
        address = parse_address(target)
    except ValueError as error:
        raise SourceError(str(error)) from None
    return KafkaSource(address, kafka or KafkaSettings(), follow=follow, limit=limit, positions=positions)
