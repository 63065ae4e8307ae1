"""Dead letters: records that could not become events, kept with the reason and the place, counted and summed up."""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec
import xxhash

from stream_guard.errors import StoreError
from stream_guard.judge.counts import Counts, DeadLetterClass
from stream_guard.judge.model import resolved
from stream_guard.ports import Record
from stream_guard.redaction import mask_secrets
from stream_guard.storage.line_log import LineLog

HEAD: Final = 64 * 1024  # bytes of a record that are kept
_WAITING: Final = 256  # letters written together
_SHAPES: Final = 20  # different reasons that are told apart in the summary
# Numbers, quoted pieces and bytes differ from record to record where the mistake is the same.
_PARTICULAR: Final = re.compile(r"""\d+|"[^"]*"|b?'[^']*'""")


@resolved
class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dead letter as it stands in the file."""

    reason: str
    about: DeadLetterClass = msgspec.field(name="class")
    origin: str
    position: int
    line: int = 0
    size: int
    digest: str
    value: str
    encoding: Literal["utf-8", "base64"] = "utf-8"
    cut: bool = False  # only the head of the value is here
    time: float = 0.0  # when it was written down


class Reason(msgspec.Struct):
    """One mistake, how often it was made, and where it was made first."""

    count: int
    first: str
    where: str


class DeadLetters:
    """Keeps dead letters in a file; without a path they are only counted.

    Letters are written in small batches, and all of them when ``flush`` returns. ``position`` is what
    ``flush`` returned before the last checkpoint: letters that were written after it are not written again.
    """

    def __init__(
        self,
        path: Path | None,
        counts: Counts,
        *,
        format_name: str,
        position: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.total = 0
        self.is_kept = path is not None  # not only counted
        self._path = path
        self._counts = counts
        self._format = format_name
        self._position = position
        self._now = now
        self._log: LineLog | None = None
        self._waiting: list[tuple[str, bytes]] = []
        self._reasons: dict[str, Reason] = {}
        if path is not None and path.exists():
            self._open(path)

    def add(self, record: Record, reason: str) -> None:
        """Keep the record, or its head, with its place and the reason; that goes to logs, and shows no secret."""
        reason = mask_secrets(reason)
        about: DeadLetterClass = "oversize" if record.truncated else "decode"
        self.total += 1
        self._counts.dead_letters[about] += 1
        self._counts.decode_errors[self._format] += 1
        self._remember(record, reason)
        self._keep(record, reason, about)

    def flush(self) -> int:
        """Bring all letters to the disk, and return the position for the checkpoint."""
        self._write()
        if self._log is None:
            return 0
        try:
            return self._log.flush()
        except OSError as error:
            raise self._explain(error) from error

    def close(self) -> None:
        """Flush, and close the file."""
        try:
            self.flush()
        finally:
            if self._log is not None:
                self._log.close()
                self._log = None

    def summary(self) -> list[str]:
        """Return what was wrong, the most frequent first, each with the place where it was seen first."""
        ordered = sorted(self._reasons.values(), key=lambda reason: -reason.count)
        return [f"{reason.count} x {reason.first} (first at {reason.where})" for reason in ordered]

    def _keep(self, record: Record, reason: str, about: DeadLetterClass) -> None:
        if self._path is None:
            return
        letter = _write_down(record, reason, about, self._now())
        self._waiting.append((_identity(letter), _encode(letter)))
        if len(self._waiting) >= _WAITING:
            self._write()

    def _remember(self, record: Record, reason: str) -> None:
        shape = _PARTICULAR.sub("#", reason)
        if shape not in self._reasons and len(self._reasons) >= _SHAPES:
            shape = ""
        known = self._reasons.get(shape)
        if known is not None:
            known.count += 1
            return
        where = f"{record.origin or 'record'}:{record.line}" if record.line else f"{record.origin} @{record.position}"
        self._reasons[shape] = Reason(1, reason if shape else "other reasons", where)

    def _write(self) -> None:
        if not self._waiting or self._path is None:
            return
        log = self._log or self._open(self._path)
        try:
            log.append(self._waiting)
        except OSError as error:
            raise self._explain(error) from error
        self._waiting.clear()

    def _open(self, path: Path) -> LineLog:
        try:
            # For the owner's eyes: these are whole payloads, with whatever was in them.
            self._log = log = LineLog(path, _read_identity, position=self._position)
        except OSError as error:
            raise self._explain(error) from error
        return log

    def _explain(self, error: OSError) -> StoreError:
        if isinstance(error, BlockingIOError):
            return StoreError(f"{self._path}: another process writes dead letters to this file; give each its own")
        return StoreError(
            f"{self._path}: dead letters cannot be written: {error.strerror}; nothing is read until they can"
        )


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(DeadLetter).decode


def _write_down(record: Record, reason: str, about: DeadLetterClass, now: float) -> DeadLetter:
    value = record.value.removesuffix(b"\n")
    head = value[:HEAD]
    encoding: Literal["utf-8", "base64"] = "utf-8"
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # A character that the cut went through is no reason to make the whole text unreadable.
        if len(head) < len(value) and error.start >= len(head) - 3:
            text = head[: error.start].decode()
        else:
            text, encoding = b64encode(head).decode(), "base64"
    return DeadLetter(
        reason=reason.encode("utf-8", "replace").decode(),
        about=about,
        origin=record.origin.encode("utf-8", "replace").decode(),
        position=record.position,
        line=record.line,
        size=record.truncated or len(value),
        digest=xxhash.xxh3_64_hexdigest(value),
        value=text,
        encoding=encoding,
        cut=bool(record.truncated) or len(head) < len(value),
        time=now,
    )


def _identity(letter: DeadLetter) -> str:
    return f"{letter.position}:{letter.digest}:{letter.origin}"


def _read_identity(line: bytes) -> str:
    try:
        return _identity(_decode(line))
    except (ValueError, RecursionError):
        return ""
