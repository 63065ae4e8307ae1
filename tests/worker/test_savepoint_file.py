"""A savepoint is read as it was written, or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from stream_guard.errors import StoreError
from stream_guard.worker.rows import VERSION, session_key
from stream_guard.worker.savepoint import FORMAT, SavedRow, SavedTopic, SavepointFile, SavepointHeader, write_savepoint

HEADER = SavepointHeader(FORMAT, VERSION, "refunds", 2, [SavedTopic("events", "01", [3, 4], [3, 4], [])], [7, 8], 1e9)
ROWS = [SavedRow(number % 2, session_key(number % 2, f"s{number}"), b"state" * number) for number in range(9)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A savepoint."""
    path = tmp_path / "refunds.state"
    assert write_savepoint(path, HEADER, ROWS) == len(ROWS)
    return path


def test_what_is_written_is_read(file: Path) -> None:
    saved = SavepointFile(file)
    assert (saved.header, saved.count, list(saved.rows())) == (HEADER, len(ROWS), ROWS)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_file_that_is_cut_off_anywhere_is_refused(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"cut off|not a savepoint"):
            SavepointFile(file)


def test_a_file_with_a_changed_byte_is_refused(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x20
        file.write_bytes(changed)
        with pytest.raises(StoreError, match=r"refunds\.state: "):
            SavepointFile(file)


@pytest.mark.parametrize("other", [{"stream_guard_state": FORMAT + 1}, {"row_version": VERSION + 1}])
def test_a_file_of_another_version_says_so(file: Path, other: dict[str, int]) -> None:
    write_savepoint(file, msgspec.structs.replace(HEADER, **other), ROWS)
    with pytest.raises(StoreError, match=r"another version.*import it with that version"):
        SavepointFile(file)


@pytest.mark.parametrize(
    "row", [SavedRow(2, session_key(2, "s"), b""), SavedRow(0, session_key(1, "s"), b""), SavedRow(0, b"", b"")]
)
def test_a_row_of_no_partition_is_refused(file: Path, row: SavedRow) -> None:
    write_savepoint(file, HEADER, [row])
    with pytest.raises(StoreError, match="a row of a partition that it does not have"):
        list(SavepointFile(file).rows())


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> list[SavedRow]:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_savepoint(tmp_path / "refunds.state", HEADER, (row for _ in [0] for row in broken()))
    assert list(tmp_path.iterdir()) == []
