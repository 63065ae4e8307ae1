"""What is refused is kept, counted and shown; never silence."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from stream_guard.decoding.dead_letters import HEAD, DeadLetters
from stream_guard.errors import StoreError
from stream_guard.judge.counts import Counts
from stream_guard.ports import Record


def letters(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def cemetery(path: Path | None, position: int | None = None) -> DeadLetters:
    return DeadLetters(path, Counts(), format_name="native", position=position, now=lambda: 1000.0)


def test_a_letter_says_what_where_and_why(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    dead = cemetery(path)
    dead.add(Record(b'{"kind":\n', "events.jsonl", 120, 7), "the JSON ends too early")
    assert dead.flush() == path.stat().st_size
    [letter] = letters(path)
    assert letter == {
        "reason": "the JSON ends too early",
        "class": "decode",
        "origin": "events.jsonl",
        "position": 120,
        "line": 7,
        "size": 8,
        "digest": letter["digest"],
        "value": '{"kind":',
        "time": 1000.0,
    }
    dead.close()


def test_a_value_that_is_no_text_is_kept_byte_by_byte(tmp_path: Path) -> None:
    dead = cemetery(tmp_path / "dead")
    dead.add(Record(b"\xff\xfe\x00"), "not UTF-8")
    dead.close()
    [letter] = letters(tmp_path / "dead")
    assert letter["encoding"] == "base64"
    assert base64.b64decode(letter["value"]) == b"\xff\xfe\x00"


@pytest.mark.parametrize("value", [b"x" * (HEAD + 1), ("é" * HEAD).encode()[1:] + b"x", ("x" + "é" * HEAD).encode()])
def test_of_a_large_value_only_the_head_is_kept(tmp_path: Path, value: bytes) -> None:
    dead = cemetery(tmp_path / "dead")
    dead.add(Record(value), "too odd")
    dead.close()
    [letter] = letters(tmp_path / "dead")
    assert letter["cut"]
    assert letter["size"] == len(value)
    assert len((tmp_path / "dead").read_bytes()) < 2 * HEAD


def test_a_record_over_the_limit_has_its_true_size_and_a_class_of_its_own(tmp_path: Path) -> None:
    counts = Counts()
    dead = DeadLetters(tmp_path / "dead", counts, format_name="native")
    dead.add(Record(b"x" * 10, truncated=52_428_800), "too large")
    dead.add(Record(b"{"), "broken")
    dead.close()
    [large, small] = letters(tmp_path / "dead")
    assert (large["size"], large["class"], large["cut"]) == (52_428_800, "oversize", True)
    assert (small["size"], small["class"]) == (1, "decode")
    assert counts.dead_letters == {"oversize": 1, "decode": 1}
    assert counts.decode_errors == {"native": 2}


def test_letters_written_after_the_checkpoint_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "dead"
    records = [Record(b"bad", "file", number * 4, number) for number in range(600)]
    dead = cemetery(path)
    dead.add(records[0], "bad")
    position = dead.flush()
    for record in records[1:]:
        dead.add(record, "bad")
    dead.close()
    os.truncate(path, path.stat().st_size * 2 // 3)

    dead = cemetery(path, position)
    for record in records[1:]:
        dead.add(record, "bad")
    dead.close()
    assert [letter["position"] for letter in letters(path)] == [record.position for record in records]


def test_without_letters_there_is_no_file(tmp_path: Path) -> None:
    dead = cemetery(tmp_path / "dead")
    assert dead.flush() == 0
    dead.close()
    assert not (tmp_path / "dead").exists()


def test_without_a_path_letters_are_counted(tmp_path: Path) -> None:
    dead = cemetery(None)
    dead.add(Record(b"x"), "bad")
    dead.close()
    assert dead.total == 1


def test_letters_are_for_the_owner_of_the_process_only(tmp_path: Path) -> None:
    dead = cemetery(tmp_path / "dead")
    dead.add(Record(b"x"), "bad")
    dead.close()
    assert stat.S_IMODE((tmp_path / "dead").stat().st_mode) == 0o600


def test_the_summary_puts_the_same_mistake_together(tmp_path: Path) -> None:
    dead = cemetery(None)
    for number in range(3):
        dead.add(Record(b"x", "e.jsonl", number, number + 1), f"the JSON ends too early (near byte {number} of 9)")
    dead.add(Record(b"x", "e.jsonl", 9, 9), 'unknown kind "a"')
    dead.add(Record(b"x", "topic-0", 10), 'unknown kind "b"')
    assert dead.summary() == [
        "3 x the JSON ends too early (near byte 0 of 9) (first at e.jsonl:1)",
        '2 x unknown kind "a" (first at e.jsonl:9)',
    ]


def test_the_summary_stays_short_whatever_comes() -> None:
    dead = cemetery(None)
    for number in range(26**2):
        dead.add(Record(b"x", "e", number, 1), f"reason {chr(97 + number % 26)}{chr(97 + number // 26)}")
    assert len(dead.summary()) <= 21
    assert dead.total == 26**2
    assert any("other reasons" in line for line in dead.summary())


def test_letters_that_cannot_be_written_stop_the_run(tmp_path: Path) -> None:
    dead = cemetery(Path("/dev/full"))
    dead.add(Record(b"x"), "bad")
    with pytest.raises(StoreError, match="dead letters cannot be written: No space left"):
        dead.flush()
    nowhere = cemetery(tmp_path / "no" / "dead")
    nowhere.add(Record(b"x"), "bad")
    with pytest.raises(StoreError, match="No such file"):
        nowhere.flush()
