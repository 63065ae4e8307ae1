"""A savepoint: the states of a group in a file, as they are at an offset of each of its topics.

The first line is the header, in JSON. Then come the rows, each behind its length, and a length of zero. The last line
has the number of rows and the digest of all that is before it, so that a file that was cut off or changed is noticed.
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from math import gcd, inf
from pathlib import Path
from tempfile import mkstemp
from typing import Annotated, BinaryIO, Final, TypeVar
from zlib import crc32

import msgspec

from stream_guard.errors import StoreError
from stream_guard.judge.forgotten import is_forgotten_row, renumbered
from stream_guard.judge.identity import BETWEEN
from stream_guard.judge.model import resolved
from stream_guard.judge.ports import DECODER_ROWS
from stream_guard.kafka.client import partition_of_key
from stream_guard.worker.rows import (
    KEY_STATES,
    SESSIONS,
    VERSION,
    KnownTopic,
    Offsets,
    ProgressRow,
    SessionRow,
    decode_policy,
    decode_progress,
    decode_session,
    encode_row,
    family_of,
    incarnation_name,
    known_topics,
    owner_key,
    partition_prefix,
    policy_key,
    progress_key,
    session_key,
    session_of,
    topic_tag,
    topics_key,
    waiting_prefix,
)

FORMAT: Final = 1
_LENGTH: Final = struct.Struct(">I")
_MOST: Final = 256 << 20  # bytes of one row; no broker takes a longer one
_HEADER: Final = 16 << 20  # bytes


DecodedT = TypeVar("DecodedT")


class SavedTopic(msgspec.Struct, frozen=True):
    """A topic that the group has read."""

    name: str
    topic_id: str  # in hexadecimal
    next_offsets: list[int]  # by partition: what the group has not read yet begins here
    ends: list[int]  # by partition, when it was saved
    unread: list[int]  # partitions with records that the group has not read


class SavepointHeader(msgspec.Struct, frozen=True):
    """What a savepoint is of."""

    stream_guard_state: int  # the format of the file
    row_version: int
    group: str
    partitions: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    topics: list[SavedTopic]
    changelog_ends: list[int]  # by partition: the rows before these offsets are in the file
    saved_at: float


@resolved
class SavedRow(msgspec.Struct, array_like=True, gc=False):
    """A row of the table. The order of the fields is the format."""

    partition: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    key: bytes
    value: bytes


class _Trailer(msgspec.Struct, frozen=True):
    rows: int
    sha256: str


def write_savepoint(path: Path, header: SavepointHeader, rows: Iterable[SavedRow]) -> int:
    """Write a savepoint that only its owner may read; return its number of rows. It is there whole or not at all."""
    digest, count, encode = sha256(), 0, msgspec.msgpack.Encoder().encode
    handle, name = mkstemp(dir=path.parent, prefix=f"{path.name}.")  # nobody else may read it: states quote sessions
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:

            def put(data: bytes) -> None:
                digest.update(data)
                file.write(data)

            put(msgspec.json.encode(header) + b"\n")
            for row in rows:
                packed = encode(row)
                put(_LENGTH.pack(len(packed)) + packed)
                count += 1
            put(_LENGTH.pack(0))
            file.write(msgspec.json.encode(_Trailer(count, digest.hexdigest())) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return count


class SavepointFile:
    """A savepoint that was read to its end once, and is what was written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        digest, count = sha256(), 0
        with path.open("rb") as file:
            self.header = self._read_header(file, digest.update)
            for packed in self._frames(file, digest.update):
                del packed
                count += 1
            trailer = self._decode(file.read(_HEADER), _Trailer)
        if (trailer.rows, trailer.sha256) != (count, digest.hexdigest()):
            raise StoreError(f"{path}: the content is not what was written; copy the file again, or export again")
        self.digest = trailer.sha256
        self.count = count

    def rows(self) -> Iterator[SavedRow]:
        """Yield the rows."""
        decode = msgspec.msgpack.Decoder(SavedRow).decode
        with self._path.open("rb") as file:
            self._read_header(file, lambda _: None)
            for packed in self._frames(file, lambda _: None):
                try:
                    row = decode(packed)
                except msgspec.MsgspecError as error:
                    raise self._unreadable(f"a row that is none: {error}") from None
                if not row.key.startswith(partition_prefix(row.partition)) or row.partition >= self.header.partitions:
                    raise self._unreadable(f"a row of a partition that it does not have: {row.partition}")
                yield row

    def _read_header(self, file: BinaryIO, seen: Callable[[bytes], object]) -> SavepointHeader:
        line = file.readline(_HEADER)
        if not line.startswith(b'{"stream_guard_state":'):
            raise self._unreadable("its first line is not that of a savepoint")
        header = self._decode(line, SavepointHeader)
        seen(line)
        if (header.stream_guard_state, header.row_version) != (FORMAT, VERSION):
            raise StoreError(
                f"{self._path}: written by another version of stream_guard (format {header.stream_guard_state}, rows "
                f"{header.row_version}; this one reads {FORMAT} and {VERSION}); import it with that version"
            )
        return header

    def _frames(self, file: BinaryIO, seen: Callable[[bytes], object]) -> Iterator[bytes]:
        while True:
            head = file.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                raise self._cut_off()
            seen(head)
            (length,) = _LENGTH.unpack(head)
            if not length:
                return
            if length > _MOST:
                raise self._unreadable(f"a row of {length} bytes")
            packed = file.read(length)
            if len(packed) < length:
                raise self._cut_off()
            seen(packed)
            yield packed

    def _decode(self, line: bytes, kind: type[DecodedT]) -> DecodedT:
        if not line.endswith(b"\n"):
            raise self._cut_off()
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as error:
            raise self._unreadable(str(error)) from None

    def _cut_off(self) -> StoreError:
        return StoreError(f"{self._path}: the file is cut off; copy it again, or export again")

    def _unreadable(self, what: str) -> StoreError:
        return StoreError(f"{self._path}: not a savepoint: {what}; name a file that `state export` has written")


# Moving states: which rows of a savepoint go to which partition of the group that takes them.
#
# A topic that the new group reads as well, with as many partitions, continues: sessions stay in their partitions, and
# records are read from where the old group stopped. All other topics must have been read to their end, because the new
# group knows nothing of their offsets. Then sessions go to the partition that their key has in the new topics.

PartitionRows = dict[bytes, bytes]


class TargetTopic(msgspec.Struct, frozen=True):
    """A topic that the new group will read."""

    topic_id: str  # in hexadecimal
    ends: list[int]  # the end offset of each partition


def move_states(
    header: SavepointHeader, rows: Mapping[int, Mapping[bytes, bytes]], targets: Mapping[str, TargetTopic]
) -> dict[int, PartitionRows]:
    """Return the rows of each partition of a group that reads the target topics; StoreError when they cannot move."""
    partitions = len(next(iter(targets.values())).ends)
    same = [topic for topic in header.topics if topic.name in targets and _is_same(topic, targets[topic.name])]
    stays = partitions == header.partitions
    _refuse_unread([topic for topic in header.topics if not (stays and topic in same)])
    if not stays:
        _refuse_new_records(same, targets)
    _refuse_waiting(rows)
    move = _Move(header.partitions, partitions, rows, same)
    return {number: move.rows_of(number) for number in range(partitions)}


def _is_same(saved: SavedTopic, target: TargetTopic) -> bool:
    return bool(saved.topic_id) and saved.topic_id == target.topic_id


def _refuse_unread(topics: Iterable[SavedTopic]) -> None:
    for topic in topics:
        if topic.unread:
            raise StoreError(
                f"{topic.name}: partitions {', '.join(map(str, topic.unread))} have records that the group has not "
                "read, and nobody would read them after the move; have producers write to the new topic, start the "
                "workers again until stream_guard_lag_records is 0, stop them, and export again"
            )


def _refuse_new_records(same: Iterable[SavedTopic], targets: Mapping[str, TargetTopic]) -> None:
    """Refuse records that came under the old number of partitions: their sessions have another place now."""
    for topic in same:
        late = [
            number
            for number, (end, now) in enumerate(zip(topic.ends, targets[topic.name].ends, strict=False))
            if now > end
        ]
        if late:
            raise StoreError(
                f"{topic.name}: records came into partitions {', '.join(map(str, late))} since the export, before or "
                "after the topic got more partitions, and nobody can say which; stop the producers until the import "
                "is done, or let them write to a new topic"
            )


def _refuse_waiting(rows: Mapping[int, Mapping[bytes, bytes]]) -> None:
    waiting = sum(key.startswith(waiting_prefix(number)) for number, held in rows.items() for key in held)
    if waiting:
        raise StoreError(
            f"{waiting} events still wait for the clocks of other partitions, and have no place after the move; start "
            "the workers again, stop them a minute after their lag is 0, and export again"
        )


class _Move:
    """Moves the states of some partitions to some others, or leaves them where they are."""

    def __init__(
        self, before: int, after: int, rows: Mapping[int, Mapping[bytes, bytes]], same: Collection[SavedTopic]
    ) -> None:
        self._before = before
        self._after = after
        self._rows = rows
        self._same = {topic.name: topic for topic in same}
        self._moved: defaultdict[int, PartitionRows] = defaultdict(dict)
        self._stays = before == after
        place = (lambda number, *_: number) if self._stays else self._choose_place()
        for number, held in rows.items():
            kept = self._continuing_tags(number) if self._stays else set[int]()
            for key, value in held.items():
                family = family_of(key)
                if family in (SESSIONS, KEY_STATES):
                    self._move_row(number, family, session_of(key), value, kept, place)

    def rows_of(self, number: int) -> PartitionRows:
        """Return the rows of a partition after the move."""
        moved = self._moved[number]
        moved[topics_key(number)] = encode_row(self._topics_of(number))
        for family in (SESSIONS, KEY_STATES):
            if (progress := self._progress_of(number, family)) is not None:
                moved[progress_key(number, family)] = encode_row(progress)
        if (policy := self._policy_of(number)) is not None:
            moved[policy_key(number)] = policy
        moved[owner_key(number)] = b"\x01"  # without it, a group that has committed offsets would have lost its states
        return moved

    def _move_row(
        self, number: int, family: int, name: str, value: bytes, kept: Collection[int], place: Callable[..., int]
    ) -> None:
        row = decode_session(value)
        if not self._stays and name.startswith(DECODER_ROWS):
            raise StoreError(
                f"partition {number} holds records that wait for others of their session, and cannot be placed; "
                "move them into as many partitions as there were, or wait until they are judged, and export again"
            )
        if not self._stays and is_forgotten_row(name):
            self._copy_forgotten(number, name, row)
            return
        row.applied = _only(row.applied, kept)
        if row.state or row.applied:  # an ended session has a row only for records that may come again
            target = place(number, family, name)
            self._moved[target][session_key(target, name, family)] = encode_row(row)

    def _copy_forgotten(self, number: int, name: str, row: SessionRow) -> None:
        """Copy a list of forgotten sessions to all partitions in which they may come back."""
        step = gcd(self._before, self._after)
        sources = self._before // step  # partitions whose sessions come together in one
        for target in range(number % step, self._after, step):
            named, state = renumbered(name, row.state, sources, number // step)
            copy = SessionRow(VERSION, {}, row.deadline, state)
            self._moved[target][session_key(target, named)] = encode_row(copy)

    def _choose_place(self) -> Callable[..., int]:
        """Return the function from a session to its new partition; StoreError when its key is not known."""
        wholly = self._all_placed_by(_whole)
        if not wholly and not self._all_placed_by(_bare):
            raise StoreError(
                "sessions are in partitions that are not those of their ids: their records have other keys, so nobody "
                "can say where they go; begin anew with another group, and with --rekey"
            )
        key_of = _whole if wholly else _bare

        def place(_number: int, family: int, name: str) -> int:
            return partition_of_key(_whole(name) if family == KEY_STATES else key_of(name), self._after)

        return place

    def _all_placed_by(self, key_of: Callable[[str], bytes]) -> bool:
        return all(
            partition_of_key(key_of(name), self._before) == number
            for number, held in self._rows.items()
            for key in held
            if family_of(key) == SESSIONS and not _is_reserved(name := session_of(key))
        )

    def _continuing_tags(self, number: int) -> set[int]:
        known = known_topics(self._rows.get(number, {}), number)
        return {topic_tag(name, known[name].incarnation) for name in known if name in self._same}

    def _topics_of(self, number: int) -> dict[str, KnownTopic]:
        """Return what a partition knows of the topics that continue."""
        known = known_topics(self._rows.get(number, {}), number)
        return {name: known[name] for name in known if name in self._same}

    def _sources(self, number: int) -> Sequence[int]:
        """Return the partitions whose sessions come into a partition."""
        step = gcd(self._before, self._after)
        return [number] if self._stays else range(number % step, self._before, step)

    def _policy_of(self, number: int) -> bytes | None:
        """Return by which rollout a partition is judged; by another, states of rules that it lacks would be forgotten.

        Where partitions come together, all was read, and the last of their rollouts follows the others in any case.
        """
        rows = [self._rows.get(source, {}).get(policy_key(source)) for source in self._sources(number)]
        return max((row for row in rows if row is not None), key=lambda row: decode_policy(row).rollout, default=None)

    def _progress_of(self, number: int, family: int) -> ProgressRow | None:
        rows = [row for source in self._sources(number) if (row := self._read_progress(source, family)) is not None]
        if not rows:
            return None
        # The slowest clock: no deadline may fire early. Where there was no event, there is no session.
        slowest = min(rows, key=lambda row: inf if row.watermark is None else row.watermark)
        applied = self._applied_of(number, family)
        if not self._stays:
            return ProgressRow(VERSION, applied, slowest.watermark, slowest.wall)
        [row] = rows
        row.applied = _only(row.applied, applied)
        kept = {crc32(f"{name}/{at}".encode()) for name in self._continuing_names() for at in range(self._before)}
        row.origins = _only(row.origins, kept)
        for sender in row.senders.values():
            sender.positions = {tag: at for tag, at in sender.positions.items() if tag in self._continuing_tags(number)}
        return row

    def _continuing_names(self) -> set[str]:
        """Return the names of continuing topics, as the origins of re-keyed records have them."""
        return {
            incarnation_name(name, topic.incarnation)
            for number, held in self._rows.items()
            for name, topic in known_topics(held, number).items()
            if name in self._same
        }

    def _applied_of(self, number: int, family: int) -> Offsets:
        """Return the applied offsets of the topics that continue, in a partition that they had before."""
        row = self._read_progress(number, family) if number < self._before else None
        return {} if row is None else _only(row.applied, self._continuing_tags(number))

    def _read_progress(self, number: int, family: int) -> ProgressRow | None:
        raw = self._rows.get(number, {}).get(progress_key(number, family))
        return None if raw is None else decode_progress(raw)


def _only(offsets: Mapping[int, int], kept: Collection[int]) -> Offsets:
    return {tag: offset for tag, offset in offsets.items() if tag in kept}


def _whole(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _bare(name: str) -> bytes:
    """Return the key of a session whose producers do not write the tenant."""
    tenant, between, session_id = name.partition(BETWEEN)
    return _whole(session_id if between else tenant)


def _is_reserved(name: str) -> bool:
    return name.startswith(DECODER_ROWS) or is_forgotten_row(name)
