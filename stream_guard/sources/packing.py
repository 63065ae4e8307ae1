"""Packed files as streams of bytes: gzip, and Zstandard with the extra ``archives``."""

from __future__ import annotations

import gzip
import zlib
from io import FileIO
from typing import Any, Final, Protocol

from stream_guard.distribution import install_line

GZIP: Final = ".gz"
ZSTANDARD: Final = ".zst"
BROKEN: Final = (OSError, EOFError, zlib.error)
"""What reading a damaged file raises."""

# The memory that a frame may ask for; the zstd tools refuse more too.
WINDOW: Final = 128 << 20
# Four bytes may expand to 128 KiB, so one piece expands to at most 32 MiB.
_PIECE: Final = 1 << 10


class Packed(Protocol):
    """A packed file that is being read."""

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes of what was packed, none at the end."""


def is_packed(name: str) -> bool:
    """Whether a file of this name is packed."""
    return name.endswith((GZIP, ZSTANDARD))


def unpack(raw: FileIO, name: str) -> Packed:
    """Return the unpacked stream of a file; OSError where it needs a package that is not installed."""
    if name.endswith(GZIP):
        return _Bounded(raw, gzip.GzipFile(fileobj=raw, mode="rb"))
    return _Bounded(raw, _Zstandard(raw, load_zstandard()))


def load_zstandard() -> Any:
    """Return the package that unpacks Zstandard; OSError where it is not installed."""
    try:
        import zstandard  # noqa: PLC0415  # only now: most runs never need it
    except ImportError:
        raise OSError(f"it is packed with Zstandard, which needs an extra: {install_line('archives')}") from None
    return zstandard


class _Bounded:
    """Stops at a file that expands to more than it may."""

    def __init__(self, raw: FileIO, packed: Packed) -> None:
        self._raw = raw
        self._packed = packed
        self._size = 0

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes of what was packed, none at the end; ExpansionError where it is too much."""
        found = self._packed.read(size)
        self._size += len(found)
        if self._size > FREE:
            check_expansion(self._raw.tell(), self._size, FREE)
        return found


class _Zstandard:
    """Reads frame after frame; unlike the package's own reader, it notices a file that was cut off."""

    def __init__(self, raw: FileIO, package: Any) -> None:
        self._raw = raw
        self._error: type[Exception] = package.ZstdError
        self._begin = package.ZstdDecompressor(max_window_size=WINDOW).decompressobj
        self._frame: Any = None
        self._rest = b""  # packed, of the next frame
        self._ready = b""  # unpacked

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes of what was packed, none at the end; EOFError where the file was cut off."""
        while not self._ready:
            piece = self._rest or self._raw.read(_PIECE)
            self._rest = b""
            if not piece:
                if self._frame is not None:
                    raise EOFError("it ends in the middle of a frame")
                return b""
            self._ready = self._unpack(piece)
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def _unpack(self, piece: bytes) -> bytes:
        self._frame = self._frame or self._begin()
        try:
            found: bytes = self._frame.decompress(piece)
        except self._error as error:
            raise OSError(str(error)) from error
        if self._frame.eof:
            self._rest, self._frame = self._frame.unused_data, None
        return found


# How far packed data may expand: the limits that keep a small file from filling the memory, or running for days.


MAX_RATIO: Final = 1000
"""How many times its size a file may become; text that people and agents write stays below a hundred."""
FREE: Final = 1 << 30
"""Bytes that a file of lines may become in any case: they pass through in pieces."""
FREE_COLUMN: Final = 64 << 20
"""Bytes that a column of a row group of Parquet may become in any case."""
MAX_BLOCK: Final = 128 << 20
"""Bytes that a block of Avro may become: it is in memory as a whole."""


class ExpansionError(OSError):
    """A file expands to more than it may."""


def check_expansion(packed: int, unpacked: int, free: int, what: str = "it") -> None:
    """Raise ExpansionError when so many bytes may not have become so many."""
    if unpacked > free and unpacked > packed * MAX_RATIO:
        raise ExpansionError(
            f"{what} expands to {unpacked} bytes or more, over {MAX_RATIO} times its {packed}; that is no recording"
        )
