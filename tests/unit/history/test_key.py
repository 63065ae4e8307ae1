"""A history that is signed with a key: whoever can write the database, but has no key, gets nothing through."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stream_guard.errors import SettingsError, StoreError
from stream_guard.history import audit, chain, review_rows
from stream_guard.history.database import SqliteDatabase
from stream_guard.history.retention import prune
from stream_guard.judge.model import Action
from stream_guard.settings import HistorySettings
from tests import processes
from tests.history.claims import World, call, review_of
from tests.history.retention_claims import KEEP, RETENTION_CLAIMS, ago
from tests.history.review_claims import REVIEW_CLAIMS, problems

KEY = b"a key of thirty-two bytes or more"


def keyed(folder: Path, key: bytes = KEY) -> World:
    return World(lambda: SqliteDatabase(folder / "history.db", key))


@pytest.mark.parametrize("claim", [*REVIEW_CLAIMS, *RETENTION_CLAIMS], ids=lambda claim: claim.__name__)
def test_with_a_key_claims_hold_as_without(claim: object, tmp_path: Path) -> None:
    with keyed(tmp_path) as world:
        claim(world)  # type: ignore[operator]  # a claim is a function


def test_an_approval_with_a_record_that_fits_lets_nothing_through_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with keyed(tmp_path) as world:
        gate = world.gate()
        review = review_of(gate.check(call("pay", call_id="c1")))
        intruder = SqliteDatabase(tmp_path / "history.db")  # all of stream_guard, and not the key
        known = gate.reviews.get(review)
        assert known is not None
        with monkeypatch.context() as theirs, intruder.transaction() as statements:
            theirs.setattr(chain, "_require_intact_end", lambda _: None)
            review_rows.update(statements, msgspec.structs.replace(known, status="approved", by="ada"), world.now)
        assert audit.verify(world.database).problems[0].startswith("record 4 is not signed with the key")
        with pytest.raises(StoreError, match="the last record of the audit was not written with the key"):
            gate.check(call("pay", call_id="c1"))
        # Another record of theirs, or none, changes nothing; nor does taking theirs out again.
        with intruder.transaction() as statements:
            statements.run("DELETE FROM sg_audit WHERE number = 4")
        intruder.close()
        assert gate.check(call("pay", call_id="c1")).action is Action.PAUSE
        assert review in problems(world)


def test_a_chain_that_was_cut_back_to_before_the_key_is_not_carried_on(tmp_path: Path) -> None:
    with World(lambda: SqliteDatabase(tmp_path / "history.db")) as before:
        before.gate().check(call("drop"))
    with keyed(tmp_path) as world:
        with pytest.raises(StoreError, match="audit sign"):
            world.gate().check(call("drop", {"n": 2}))
        assert "no record is signed with the key" in problems(world)
        with world.database.transaction() as statements:
            chain.sign(statements, world.now)
        assert world.gate().check(call("drop", {"n": 3})).action is Action.BLOCK
        assert problems(world) == ""
        with world.database.transaction() as statements:
            statements.run("DELETE FROM sg_audit WHERE number > 2")
        with pytest.raises(StoreError, match="was not written with the key"):
            world.gate().check(call("drop", {"n": 4}))


def test_nobody_prunes_without_the_key_nor_says_what_was_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with keyed(tmp_path) as world:
        ago(world, 100)
        for number in range(3):
            world.gate().check(call("drop", {"n": number}, session=f"s{number}"))
        intruder = SqliteDatabase(tmp_path / "history.db")
        for limits in (KEEP, HistorySettings(keep=None, max_records=1)):
            with pytest.raises(StoreError, match="signed with another key"):
                prune(intruder, limits)
        with monkeypatch.context() as theirs, intruder.transaction() as statements:
            theirs.setattr(chain, "_require_intact_end", lambda _: None)
            [(digest,)] = statements.run("SELECT digest FROM sg_audit WHERE number = 4")
            chain.append(statements, chain.PRUNED, world.now, {"through": 4, "digest": digest, "rows": {}})
            statements.run("DELETE FROM sg_audit WHERE number <= 4")
        intruder.close()
        assert "record 1 is missing: record 5 stands in its place" in problems(world)


def test_a_chain_that_was_signed_later_is_pruned_from_its_beginning(tmp_path: Path) -> None:
    with World(lambda: SqliteDatabase(tmp_path / "history.db")) as before:
        ago(before, 100)
        before.gate().check(call("drop"))
        then = before.now
    with keyed(tmp_path) as world:
        with world.database.transaction() as statements:
            chain.sign(statements, then)
        ago(world, 0)
        world.gate().check(call("drop", {"n": 2}, session="young"))
        assert prune(world.database, KEEP)["sg_audit"] == 3
        assert problems(world) == ""


def test_another_key_is_said(tmp_path: Path) -> None:
    with keyed(tmp_path) as world:
        world.gate().check(call("drop"))
    for key in (b"", b"another key of thirty-two bytes, or more"):
        with keyed(tmp_path, key) as other:
            with pytest.raises(StoreError, match="was not written with"):
                other.gate().check(call("drop", {"n": 2}))
            assert "record 1 was changed, or signed with another key" in problems(other)


def test_a_key_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        HistorySettings(key_file=tmp_path / "missing").read_key()
    (tmp_path / "key").write_text("short\n")
    with pytest.raises(SettingsError, match="needs 32 bytes or more"):
        HistorySettings(key_file=tmp_path / "key").read_key()


def test_the_command_signs_and_verifies_with_the_key_of_the_settings(tmp_path: Path) -> None:
    with World(lambda: SqliteDatabase(tmp_path / "history.db")) as before:
        before.gate().check(call("drop"))
    (tmp_path / "key").write_bytes(KEY)
    words = ("--history", tmp_path / "history.db")
    variables = {"STREAM_GUARD_HISTORY__KEY_FILE": str(tmp_path / "key")}
    codes = [
        processes.run("audit", command, *words, env=env, text=True).returncode
        for command, env in (("sign", {}), ("verify", variables), ("sign", variables), ("verify", variables))
    ]
    assert codes == [2, 1, 0, 0]
