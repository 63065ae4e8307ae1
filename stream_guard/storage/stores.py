"""Stores for sessions that are not in memory, and for the positions of a run."""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isnan, nan
from pathlib import Path
from typing import Final, TypeVar

from stream_guard.judge.ports import ALERT_ROWS
from stream_guard.judge.rows import append
from stream_guard.storage.sqlite_files import SqliteFile, SqliteMark

MARK: Final = SqliteMark(
    "a checkpoint",
    application=0x53_47_43_50,  # "SGCP"
    full="no space left for the checkpoint; free some and run again, the last commit stands",
    damaged="the checkpoint is damaged; move it away and start from the beginning of the input",
    locked="another process uses this checkpoint; stop it, or give each run its own file",
    version=2,  # the blobs have versions of their own
    earlier=(1,),  # without changes behind blobs
    other_version="finish the run with the stream_guard that wrote it, or move the file away and start from the "
    "beginning of the input",
)

Answer = TypeVar("Answer")

_DEADLINE: Final = struct.Struct("<d")
_PLAIN: Final = b"\0"
_PACKED: Final = b"\1"
_WORTH_PACKING: Final = 64  # bytes
_WINDOW: Final = -12  # 4 KB back, and no header: rows are small


class MemoryStore:
    """A store in memory, which ends with the process.

    From ``packed_from`` rows on, new ones are compressed: rows of one policy are alike, so each takes a third of its
    size beside one of them as the dictionary. Below, the time that it takes buys nothing.
    """

    is_shared: Final = False

    def __init__(self, *, packed_from: int = 10_000) -> None:
        # The deadline is packed in front of the blob: as an object it would take 80 bytes a session.
        self._rows: dict[str, bytes] = {}
        self._meta: dict[str, bytes] = {}
        self._packed_from = packed_from
        self._likeness = b""  # the blob that others are compressed beside; it never changes

    def get(self, session_id: str) -> bytes | None:
        """Return what was put last, or None."""
        row = self._rows.get(session_id)
        if row is None:
            return None
        blob = row[_DEADLINE.size + 1 :]
        if row[_DEADLINE.size : _DEADLINE.size + 1] == _PLAIN:
            return blob
        return zlib.decompressobj(_WINDOW, self._likeness).decompress(blob)

    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        """Keep the blob."""
        head = _DEADLINE.pack(nan if deadline is None else deadline)
        if len(self._rows) >= self._packed_from and len(blob) >= _WORTH_PACKING:
            self._likeness = self._likeness or blob
            packer = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, 4, zlib.Z_DEFAULT_STRATEGY, self._likeness)
            packed = packer.compress(blob) + packer.flush()
            if len(packed) < len(blob):
                self._rows[session_id] = head + _PACKED + packed
                return
        self._rows[session_id] = head + _PLAIN + blob

    def drop(self, session_id: str) -> None:
        """Forget the session."""
        self._rows.pop(session_id, None)

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        """Yield every session there is, with its deadline."""
        for session_id, row in list(self._rows.items()):
            (deadline,) = _DEADLINE.unpack_from(row)
            yield session_id, None if isnan(deadline) else deadline

    def alerts(self) -> list[bytes]:
        """Return the rows of alerts that are not told yet."""
        return [blob for name in self._rows if name.startswith(ALERT_ROWS) and (blob := self.get(name)) is not None]

    def together(self, names: Iterable[str], work: Callable[[], Answer]) -> Answer:
        """Do the work: nobody else has any row."""
        del names
        return work()

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Keep the metadata; everything else is in the store already."""
        self._meta.update(meta)

    def meta(self) -> Mapping[str, bytes]:
        """Return the meta data of all commits, the latest of each name."""
        return dict(self._meta)

    def size(self) -> int:
        """Return how many bytes the rows have."""
        return sum(map(len, self._rows.values()))

    def close(self) -> None:
        """Nothing is open."""


class CheckpointStore(SqliteFile):
    """A store in one SQLite file; ``commit`` writes all changes or none.

    A process that is killed leaves the state of its last commit. One process at a time uses the file; its lock ends
    with the process. After a power failure the file is consistent, but may be a few commits old: the work since is
    repeated, with the same alert ids. ``synced`` is for work that nobody can repeat: each commit is on the disk.
    """

    is_shared: Final = False

    def __init__(self, path: Path, *, synced: bool = False) -> None:
        self._synced = synced
        self._puts: dict[str, tuple[bytes, float | None]] = {}
        self._drops: set[str] = set()
        # A guard uses it from many threads, one at a time; the file is locked until the process ends.
        super().__init__(path, MARK, self._prepare, patience=1.0, exclusive=True)

    def get(self, session_id: str) -> bytes | None:
        """Return what was put last, committed or not, or None."""
        put = self._puts.get(session_id)
        if put is not None:
            return put[0]
        if session_id in self._drops:
            return None
        rows = self.query("SELECT blob FROM sessions WHERE id = ?", _key(session_id))
        return rows[0][0] if rows else None

    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        """Write the blob with the next commit."""
        self._drops.discard(session_id)
        self._puts[session_id] = (blob, deadline)

    def drop(self, session_id: str) -> None:
        """Delete the session with the next commit."""
        self._puts.pop(session_id, None)
        self._drops.add(session_id)

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        """Yield every session there is, with its deadline."""
        rows = self.query("SELECT id, deadline FROM sessions ORDER BY rowid")
        found: dict[str, float | None] = {raw.decode("utf-8", "surrogatepass"): deadline for raw, deadline in rows}
        found |= {session_id: deadline for session_id, (_, deadline) in self._puts.items()}
        for session_id, deadline in found.items():
            if session_id not in self._drops:
                yield session_id, deadline

    def alerts(self) -> list[bytes]:
        """Return the committed rows of alerts that are not told yet."""
        begin = _key(ALERT_ROWS)
        found = self.query("SELECT blob FROM sessions WHERE id >= ? AND id < ? ORDER BY rowid", begin, begin + b"\xff")
        return [blob for (blob,) in found]

    def together(self, names: Iterable[str], work: Callable[[], Answer]) -> Answer:
        """Do the work and commit: no other process has the file."""
        del names
        found = work()
        self.commit({})
        return found

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Write all puts, drops and metadata in one transaction.

        After a StoreError nothing is written, and the same commit can be tried again.
        """
        self.connection()  # one that is closed takes nothing
        if not (self._puts or self._drops or meta):
            return
        with self.write(durable=self._synced) as db:
            db.executemany("DELETE FROM sessions WHERE id = ?", [(_key(session_id),) for session_id in self._drops])
            db.executemany(
                "INSERT INTO sessions VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET blob = excluded.blob, deadline = excluded.deadline",
                [(_key(session_id), blob, deadline) for session_id, (blob, deadline) in self._puts.items()],
            )
            db.executemany(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", meta.items()
            )
        self._puts.clear()
        self._drops.clear()

    def meta(self) -> Mapping[str, bytes]:
        """Return the meta data of all commits, the latest of each name."""
        return dict(self.query("SELECT name, value FROM meta"))

    def size(self) -> int:
        """Return how many bytes the file has."""
        return self.path.stat().st_size if self.path.exists() else 0

    def _prepare(self, db: sqlite3.Connection) -> None:
        # With rowids: blobs in the leaves of the primary key made commits four times slower (measured).
        db.execute(
            "CREATE TABLE IF NOT EXISTS sessions (id BLOB PRIMARY KEY NOT NULL, blob BLOB NOT NULL, deadline REAL)"
        )
        db.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL)")
        _join_changes(db)


def _join_changes(db: sqlite3.Connection) -> None:
    """Put the changes that earlier versions kept in a table of their own behind the blobs they belong to."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'changes'").fetchall():
        return
    for key, change, deadline in db.execute("SELECT id, change, deadline FROM changes ORDER BY rowid").fetchall():
        for (blob,) in db.execute("SELECT blob FROM sessions WHERE id = ?", (key,)).fetchall():
            joined = (append(blob, change), deadline, key)
            db.execute("UPDATE sessions SET blob = ?, deadline = ? WHERE id = ?", joined)
    db.execute("DROP TABLE changes")


def _key(session_id: str) -> bytes:
    # As bytes: in-process callers may use ids with lone surrogates, which no database takes as text.
    return session_id.encode("utf-8", "surrogatepass")
