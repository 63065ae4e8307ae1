"""Every store keeps its promise; the checkpoint also keeps it through a kill and a full disk."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stream_guard.errors import StoreError
from stream_guard.storage.stores import CheckpointStore, MemoryStore

AnyStore: TypeAlias = MemoryStore | CheckpointStore

MAKERS: dict[str, Callable[[Path], AnyStore]] = {
    "memory": lambda _path: MemoryStore(),
    "packed memory": lambda _path: MemoryStore(packed_from=1),
    "checkpoint": CheckpointStore,
}

ids = st.sampled_from(["a", "b", "", "\x00", "é", "\ud800", "x" * 300])
blobs = st.binary(max_size=20) | st.binary(max_size=20).map(lambda blob: b"a row like all others " * 9 + blob)
deadlines = st.none() | st.floats(allow_nan=False)


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    made = MAKERS[request.param](tmp_path / "checkpoint")
    yield made
    made.close()


class AgainstADict(RuleBasedStateMachine):
    """A store does what a dict does; a checkpoint that is opened again is the dict of the last commit."""

    maker: ClassVar[str]

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "checkpoint"
        self.store = MAKERS[self.maker](self.path)
        self.rows: dict[str, tuple[bytes, float | None]] = {}
        self.meta: dict[str, bytes] = {}
        self.committed = (dict(self.rows), dict(self.meta))

    @rule(session_id=ids, blob=blobs, deadline=deadlines)
    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        self.store.put(session_id, blob, deadline)
        self.rows[session_id] = (blob, deadline)

    @rule(session_id=ids)
    def drop(self, session_id: str) -> None:
        self.store.drop(session_id)
        self.rows.pop(session_id, None)

    @rule(meta=st.dictionaries(st.sampled_from(["source", "sink:a"]), blobs))
    def commit(self, meta: dict[str, bytes]) -> None:
        self.store.commit(meta)
        self.meta |= meta
        self.committed = (dict(self.rows), dict(self.meta))

    @rule()
    def reopen(self) -> None:
        if isinstance(self.store, CheckpointStore):
            self.store.close()
            self.store = CheckpointStore(self.path)
            self.rows, self.meta = dict(self.committed[0]), dict(self.committed[1])

    @invariant()
    def it_equals_the_dict(self) -> None:
        assert dict(self.store.deadlines()) == {key: deadline for key, (_, deadline) in self.rows.items()}
        assert {key: self.store.get(key) for key in ("a", "\ud800", *self.rows)} == {
            key: self.rows[key][0] if key in self.rows else None for key in ("a", "\ud800", *self.rows)
        }
        assert self.store.meta() == self.meta

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


class MemoryAgainstADict(AgainstADict):
    maker = "memory"


class PackedAgainstADict(AgainstADict):
    maker = "packed memory"


class CheckpointAgainstADict(AgainstADict):
    maker = "checkpoint"


TestMemory = MemoryAgainstADict.TestCase
TestMemory.settings = settings(max_examples=settings().max_examples, stateful_step_count=20, deadline=None)
TestPacked = PackedAgainstADict.TestCase
TestPacked.settings = settings(max_examples=settings().max_examples, stateful_step_count=20, deadline=None)
TestCheckpoint = CheckpointAgainstADict.TestCase
TestCheckpoint.settings = settings(max_examples=settings().max_examples, stateful_step_count=20, deadline=None)


def test_a_session_that_was_never_put_is_none(store: AnyStore) -> None:
    assert store.get("nobody") is None
    store.drop("nobody")
    store.commit({})
    assert list(store.deadlines()) == []


def test_rows_that_are_alike_take_less_than_half_of_their_size() -> None:
    store = MemoryStore(packed_from=10)
    blobs = [
        b"%d the states of twenty rules, as every session of a policy has them " % number * 6 for number in range(30)
    ]
    for number, blob in enumerate(blobs):
        store.put(str(number), blob, 1.0)
    assert [store.get(str(number)) for number in range(30)] == blobs
    assert sum(len(row) for row in store._rows.values()) < sum(map(len, blobs[:10])) + sum(map(len, blobs[10:])) / 2


def test_a_blob_comes_back_byte_by_byte(store: AnyStore) -> None:
    blob = bytes(range(256)) * 1000
    store.put("s", blob, 12.5)
    assert store.get("s") == blob
    store.commit({"m": blob})
    assert store.get("s") == blob
    assert store.meta() == {"m": blob}


# Each commit moves money from one session to the other; whatever commit was the last, the sum is 100.
MOVER = """
import sys
from pathlib import Path
from stream_guard.storage.stores import CheckpointStore
store = CheckpointStore(Path(sys.argv[1]))
number = int(store.meta().get("number", b"0"))
while True:
    number += 1
    amount = number % 100
    store.put("one", b"%d" % amount + b" " * 20_000, float(number))
    store.put("other", b"%d" % (100 - amount), float(number))
    (store.drop if number % 2 else lambda s: store.put(s, b"even", None))("sometimes")
    store.commit({"number": b"%d" % number})
    if number % 50 == 0:
        print(number, flush=True)
"""


def test_a_killed_process_leaves_exactly_one_of_its_commits(tmp_path: Path, root: Path) -> None:
    path, last = tmp_path / "checkpoint", 0
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", MOVER, str(path)], stdout=subprocess.PIPE, cwd=root) as mover:
            assert mover.stdout is not None
            said = int(mover.stdout.readline())
            mover.send_signal(signal.SIGKILL)
        store = CheckpointStore(path)
        number = int(store.meta()["number"])
        assert number >= said > last, "what was committed before the kill is there"
        last = said
        assert int(store.get("one") or b"") + int(store.get("other") or b"") == 100
        assert int(store.get("one") or b"") == number % 100
        assert store.get("sometimes") == (None if number % 2 else b"even")
        assert dict(store.deadlines())["one"] == number
        store.close()


def test_a_second_process_is_told_that_the_checkpoint_is_in_use(tmp_path: Path, root: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoint")
    script = (
        "import sys; from pathlib import Path; from stream_guard.errors import StoreError\n"
        "from stream_guard.storage.stores import CheckpointStore\n"
        "try: CheckpointStore(Path(sys.argv[1]))\n"
        "except StoreError as error: print(error)\n"
    )
    command = [sys.executable, "-c", script, str(store.path)]
    other = subprocess.run(command, capture_output=True, check=True, cwd=root, text=True)
    assert "another process uses this checkpoint" in other.stdout
    store.put("s", b"mine", None)
    store.commit({})
    store.close()


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    CheckpointStore(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(StoreError, match="version 7, this is version 2"):
        CheckpointStore(path)


def test_somebody_elses_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "addresses.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE addresses (name TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a checkpoint of stream_guard"):
        CheckpointStore(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n" * 100)
    with pytest.raises(StoreError, match="not a checkpoint"):
        CheckpointStore(path)
    assert path.read_text() == "dear diary\n" * 100


def test_a_damaged_checkpoint_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    store = CheckpointStore(path)
    for number in range(200):
        store.put(f"s{number}", b"x" * 1000, None)
    store.commit({})
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(StoreError, match="damaged; move it away"):  # noqa: PT012  (which call notices is SQLite's choice)
        store = CheckpointStore(path)
        try:
            list(store.deadlines())
            store.get("s1")
        finally:
            store.close()


def test_a_folder_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="its folder must exist"):
        CheckpointStore(tmp_path / "no" / "checkpoint")


def test_after_a_full_disk_the_last_commit_stands_and_the_next_try_can_succeed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    store = CheckpointStore(path)
    store.put("s", b"first", None)
    store.commit({"number": b"1"})
    db = store.connection()
    [(pages,)] = db.execute("PRAGMA page_count")
    db.execute(f"PRAGMA max_page_count = {pages + 1}")
    store.put("s", b"second", None)
    store.put("large", os.urandom(100_000), None)
    with pytest.raises(StoreError, match=r"no space left.*the last commit stands"):
        store.commit({"number": b"2"})
    assert store.meta() == {"number": b"1"}
    assert store.get("s") == b"second", "it is still waiting to be committed"
    db.execute("PRAGMA max_page_count = 1000000")
    store.commit({"number": b"2"})
    store.close()
    store = CheckpointStore(path)
    assert (store.get("s"), store.meta()) == (b"second", {"number": b"2"})
    store.close()


def test_a_closed_checkpoint_says_that_it_is(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoint")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.commit({})
