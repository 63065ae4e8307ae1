"""Which part of a topic is read: between two offsets, between two times, or all of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self, TypeAlias

from stream_guard.errors import SourceError
from stream_guard.kafka.address import Address

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
