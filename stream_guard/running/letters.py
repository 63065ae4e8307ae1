"""Dead letters, read back from the file or the topic that keeps them."""

from __future__ import annotations

import os
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stream_guard.decoding.dead_letters import DeadLetter
from stream_guard.decoding.reader import REDRIVEN
from stream_guard.decoding.topic_dead_letters import CLASS, OFFSET, ORIGIN, REASON, SIZE
from stream_guard.errors import SettingsError, SourceError, StoreError
from stream_guard.history import chain
from stream_guard.kafka.address import SCHEME
from stream_guard.kafka.writer import Outgoing, TopicWriter
from stream_guard.redaction import mask_secrets
from stream_guard.sources import open_source
from stream_guard.storage.sqlite_files import create_private

if TYPE_CHECKING:
    from stream_guard.history.database import Database
    from stream_guard.ports import Record
    from stream_guard.settings import KafkaSettings, Settings


_OURS: Final = frozenset((REASON, CLASS, ORIGIN, OFFSET, SIZE, REDRIVEN))
_decode: Final = msgspec.json.Decoder(DeadLetter).decode


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter: the record as it came, why it could not be read, and where it stood."""

    id: str
    reason: str
    about: str = msgspec.field(name="class")
    origin: str  # topic and partition, or a file
    position: int  # offset there
    line: int = 0
    time: float = 0.0
    size: int = 0
    cut: bool = False  # only the head of the value is left
    redriven: str = ""  # the letter as which it was sent back before, where it was
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def topic(self) -> str:
        """The topic that it came from; empty for a file."""
        topic, _, partition = self.origin.rpartition("/")
        return topic if "/" not in topic and partition.isdigit() else ""


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters are meant; whatever is empty leaves out none."""

    ids: tuple[str, ...] = ()  # each may be the beginning of one
    reason: str = ""  # part of it, whatever the case
    about: str = ""
    topic: str = ""
    since: float | None = None
    until: float | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether a letter is one of those that are meant."""
        return (
            (not self.ids or letter.id.startswith(self.ids))
            and self.reason.casefold() in letter.reason.casefold()
            and self.about in ("", letter.about)
            and self.topic in ("", letter.topic)
            and (self.since is None or letter.time >= self.since)
            and (self.until is None or letter.time < self.until)
        )


def read_letters(target: str, settings: Settings) -> Iterator[Letter]:
    """Yield the letters of a file or a topic in their order; SourceError where there are none to be read."""
    # A letter is whole, or a head that stands in a file as text: neither is to be cut once more.
    limits = settings.decode.model_copy(update={"max_record_bytes": max(2**30, settings.decode.max_record_bytes)})
    source = open_source(target, limits=limits, kafka=settings.kafka)
    try:
        for record in source:
            if record is not None:
                yield _of_topic(record) if target.startswith(SCHEME) else _of_file(record)
    finally:
        source.close()


def _of_topic(record: Record) -> Letter:
    ours = {
        name: value.decode("utf-8", "replace") for name, value in record.headers if name in _OURS
    }  # the last counts
    if not {REASON, ORIGIN, OFFSET} <= ours.keys() or not ours[OFFSET].lstrip("-").isdigit():
        raise SourceError(
            f"{record.origin} @{record.position}: no dead letter: it has no {REASON}, {ORIGIN} and {OFFSET}; "
            "name the topic of --dead-letters"
        )
    return _letter(
        reason=ours[REASON],
        about=ours.get(CLASS, "decode"),
        origin=ours[ORIGIN],
        position=int(ours[OFFSET]),
        time=record.time or 0.0,
        size=int(ours.get(SIZE, "") or len(record.value)),
        cut=SIZE in ours,
        redriven=ours.get(REDRIVEN, ""),
        value=record.value,
        key=record.key,
        headers=tuple((name, value) for name, value in record.headers if name not in _OURS),
    )


def _of_file(record: Record) -> Letter:
    try:
        kept = _decode(record.value)
        value = b64decode(kept.value, validate=True) if kept.encoding == "base64" else kept.value.encode()
    except ValueError as error:
        raise SourceError(f"{record.origin}:{record.line}: no dead letter: {error}") from None
    return _letter(
        reason=kept.reason,
        about=kept.about,
        origin=kept.origin,
        position=kept.position,
        line=kept.line,
        time=kept.time,
        size=kept.size,
        cut=kept.cut,
        value=value,
    )


def _letter(**fields: Any) -> Letter:
    place = f"{fields['origin']}\0{fields['position']}\0".encode() + fields["value"]
    return Letter(id=blake2b(place, digest_size=8).hexdigest(), **fields)


# Dead letters go back to where they came from, and the audit says which.

WHAT: Final = "redrive"  # as the audit calls it
_AT_ONCE: Final = 256  # letters that are sent, and then recorded


class RedrivenLines:
    """A file of records, one a line, which ``run`` and ``check`` read."""

    def __init__(self, path: Path) -> None:
        create_private(path)
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise StoreError(f"{path}: letters cannot be written: {error.strerror}; name another file") from None

    def send(self, records: Sequence[Outgoing]) -> None:
        """Append the records, and return when they are on the disk."""
        self._file.writelines(record.value + b"\n" for record in records)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Redriver:
    """Sends letters of a file or a topic back, each once: those that the audit names are left out, unless ``again``.

    A crash between the sending and the record of it sends some a second time. Their events have the same ids then, and
    the sessions that have seen them drop them.
    """

    def __init__(
        self,
        database: Database,
        kafka: KafkaSettings,
        letters: str,
        *,
        to: str,
        by: str,
        clock: Callable[[], float],
        again: bool,
    ) -> None:
        self._database = database
        self._kafka = kafka
        # Letters of a topic know where they came from, on the same servers. Those of a file have lost their keys.
        self._home = f"{letters.rpartition('/')[0]}/" if letters.startswith(SCHEME) else ""
        self._to = to
        self._by = by
        self._clock = clock
        self._before = frozenset[str]() if again else frozenset(redriven_letters(database))
        self.sent: Counter[str] = Counter()  # by where they went
        self.left: Counter[str] = Counter()  # by why they did not go
        self.stuck = 0  # of those, letters that cannot go back

    def choose(self, letters: Iterable[Letter]) -> Iterator[tuple[str, Letter]]:
        """Yield the letters that can go back and have not, each with where to; the others are counted."""
        seen: set[str] = set()
        for letter in letters:
            if letter.id in self._before:
                self.left["went back before"] += 1
            elif letter.id in seen:
                self.left["stand there twice"] += 1  # a crash wrote it again
            elif why := self._obstacle(letter):
                self.left[why] += 1
                self.stuck += 1
            else:
                seen.add(letter.id)
                yield self._to or f"{self._home}{letter.topic}", letter

    def _obstacle(self, letter: Letter) -> str:
        """Return why a letter cannot go back; empty when it can."""
        if letter.cut:
            return "have only their heads left; their producers have to send them again"
        if not self._to:
            return "" if self._home and letter.topic else "do not know the way back; say with --to where they go"
        is_file = not self._to.startswith(SCHEME)
        return "have several lines; send them to a topic" if is_file and b"\n" in letter.value else ""

    def send(self, letters: Iterable[Letter]) -> None:
        """Send letters back in their order, some at a time, and record each."""
        chosen = self.choose(letters)
        with ExitStack() as opened:
            writers: dict[str, RedrivenLines | TopicWriter] = {}
            while some := list(islice(chosen, _AT_ONCE)):
                for target in {target: None for target, _ in some}:
                    if target not in writers:
                        writers[target] = self._open(target)
                        opened.callback(writers[target].close)
                    writers[target].send([_outgoing(letter) for to, letter in some if to == target])
                self._record(some)

    def _open(self, target: str) -> RedrivenLines | TopicWriter:
        if self._to and not self._to.startswith(SCHEME):
            return RedrivenLines(Path(target))
        return TopicWriter.open(target, self._kafka)

    def _record(self, sent: Sequence[tuple[str, Letter]]) -> None:
        with self._database.transaction() as statements:
            for target, letter in sent:
                record = {
                    "letter": letter.id,
                    "origin": mask_secrets(letter.origin),
                    "offset": letter.position,
                    "reason": mask_secrets(letter.reason),
                    "to": mask_secrets(target),
                    "by": self._by,
                }
                chain.append(statements, WHAT, self._clock(), record)
                self.sent[target] += 1


def redriven_letters(database: Database) -> Iterator[str]:
    """Yield the ids of the letters that went back, by the audit."""
    for record in chain.records(database):
        if record.get("what") == WHAT:
            yield str(record.get("letter"))


def check_target(to: str) -> None:
    """Raise SettingsError where letters cannot be sent to."""
    if "://" in to and not to.startswith(SCHEME):
        raise SettingsError(
            f"--to {to}: write kafka://host:port/topic, or a file; without it they go where they came from"
        )


def _outgoing(letter: Letter) -> Outgoing:
    return Outgoing(letter.key, letter.value, (*letter.headers, (REDRIVEN, letter.id.encode())))
