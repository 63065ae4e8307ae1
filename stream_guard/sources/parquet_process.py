"""Parquet files are read in a process of its own, with a limit on its memory.

The footer of a file says how large everything is, and the package believes it. A footer that lies ends that process,
by a failed allocation or a crash, and not the one that judges.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

import msgspec

from stream_guard.sources.packing import FREE_COLUMN, ExpansionError, check_expansion
from stream_guard.sources.rows import WrittenRow, written_row

# Parquet files that expand: what a row group says of its size, and how many of its rows fit into memory.
#
# A column stores a text that is repeated once, in a dictionary. A text of megabytes that is said by every row costs
# nothing in the file, and megabytes for every row that is read.


_MEMORY: Final = 64 << 20  # bytes that the rows of one batch may take
_HEAD: Final = 64  # bytes of a page that its sizes are in


def rows_at_once(group: Any, raw: BinaryIO, most: int) -> int:
    """Return how many rows of a row group may be in memory together; ExpansionError where it expands too far."""
    per_row = 0  # bytes that a row takes when it says the whole dictionary of each column
    for number in range(group.num_columns):
        column = group.column(number)
        check_expansion(
            column.total_compressed_size, column.total_uncompressed_size, FREE_COLUMN, f"column {column.path_in_schema}"
        )
        if column.has_dictionary_page:
            values = max(1, column.num_values // max(1, group.num_rows))  # a row may be a list
            per_row += values * _page_size(raw, column.dictionary_page_offset)
    if per_row > _MEMORY:
        raise ExpansionError(f"its rows may have {per_row} bytes, by its dictionaries; {_MEMORY} are read")
    return max(1, min(most, _MEMORY // max(1, per_row)))


def _page_size(raw: BinaryIO, offset: int) -> int:
    """Return the unpacked size of the page at an offset: the second number of its header, in Thrift's compact form."""
    raw.seek(offset)
    head = raw.read(_HEAD)
    _, end = _number(head, 0)
    size, _ = _number(head, end)
    return size


def _number(head: bytes, at: int) -> tuple[int, int]:
    """Return the number of a field at a place, and where the next field begins."""
    if head[at : at + 1] != b"\x15":  # the next field, a 32-bit integer
        raise ExpansionError("a page without its size")
    value, shift = 0, 0
    for place in range(at + 1, min(at + 7, len(head))):
        value |= (head[place] & 0x7F) << shift
        shift += 7
        if head[place] < 0x80:
            return (value >> 1) ^ -(value & 1), place + 1
    raise ExpansionError("a page without its size")


MEMORY: Final = 1 << 30
"""Bytes that reading a file may take, beside what the process takes anyway."""
_FREE_ROWS: Final = 1 << 20  # that a file of any size may have: a row of nulls takes no bytes
_BATCH: Final = 256  # rows that are in memory at the same time, or fewer
_LENGTH: Final = struct.Struct("<I")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[WrittenRow] | str).decode


class ParquetReader:
    """Reads files one after the other in another process, which is started for the first of them, and after a crash."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def rows(self, path: Path, limit: int) -> Iterator[WrittenRow]:
        """Yield the rows of a file; OSError where it cannot be read to its end."""
        process = self._started()
        is_over = False
        try:
            _send(process.stdin, msgspec.msgpack.encode((os.fspath(path.resolve()), limit)))
            while not is_over:
                found = _decode(_receive(process.stdout))
                is_over = not found or isinstance(found, str)
                if isinstance(found, str):
                    raise ExpansionError(found)
                yield from found
        except EOFError:
            code = process.wait()
            raise ExpansionError(
                f"reading it ended a process that has {MEMORY} bytes for it ({_way_of_ending(code)}); write it with "
                "smaller row groups"
            ) from None
        finally:
            if not is_over:  # rows that nobody wants any more may be on their way
                self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:  # closes the pipes
                process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # -P: what stands in the folder that this is run from is not ours. Arrow's own pool would take addresses
            # ahead, which count against the limit.
            command = [sys.executable, "-P", "-m", __name__]
            environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
            self._process = subprocess.Popen(  # noqa: S603  # our own module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        return self._process


def _way_of_ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def _send(pipe: IO[bytes] | None, message: bytes) -> None:
    if pipe is None:
        raise EOFError
    with suppress(BrokenPipeError):  # the process has ended; whoever receives is told
        pipe.write(_LENGTH.pack(len(message)) + message)
        pipe.flush()


def _receive(pipe: IO[bytes] | None) -> bytes:
    """Return the next message; EOFError where there is none."""
    head = pipe.read(_LENGTH.size) if pipe is not None else b""
    if pipe is None or len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    message = pipe.read(length)
    if len(message) < length:
        raise EOFError
    return message


def _batches(package: Any, path: str, limit: int) -> Iterator[list[WrittenRow]]:
    with package.ParquetFile(path) as file, Path(path).open("rb") as raw:
        metadata = file.metadata
        check_expansion(os.fstat(raw.fileno()).st_size, metadata.num_rows, _FREE_ROWS)
        for number in range(file.num_row_groups):
            group = metadata.row_group(number)
            if not group.num_columns:
                raise ExpansionError("a row group without columns")
            rows = rows_at_once(group, raw, _BATCH)
            for batch in file.iter_batches(batch_size=rows, row_groups=[number], use_threads=False):
                if batch.num_rows:
                    yield [written_row(row, limit) for row in batch.to_pylist()]


def _limit_memory() -> None:
    """Let every allocation beyond the limit fail, on systems that have such limits."""
    try:
        import resource  # noqa: PLC0415  # not on Windows
    except ImportError:
        return
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve() -> None:
    """Answer requests from the standard input until it ends."""
    import pyarrow.parquet as package  # noqa: PLC0415  # it is here that it is needed

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks says when it is over
    _limit_memory()
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    with suppress(EOFError):
        while True:
            path, limit = msgspec.msgpack.decode(_receive(asked), type=tuple[str, int])
            try:
                for rows in _batches(package, path, limit):
                    _send(answers, _encode(rows))
                ending = _encode([])
            except Exception as error:  # noqa: BLE001  # the package raises many sorts on broken bytes
                ending = _encode(f"{error}" or type(error).__name__)
            _send(answers, ending)


if __name__ == "__main__":
    _serve()
