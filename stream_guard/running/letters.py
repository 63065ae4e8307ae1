"""Dead letters, read back from the file or the topic that keeps them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stream_guard.decoding.dead_letters import DeadLetter
from stream_guard.decoding.redriven import REDRIVEN
from stream_guard.decoding.topic_dead_letters import CLASS, OFFSET, ORIGIN, REASON, SIZE
from stream_guard.errors import SourceError
from stream_guard.kafka.address import SCHEME
from stream_guard.sources import open_source

if TYPE_CHECKING:
    from stream_guard.ports import Record
    from stream_guard.settings import Settings

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
