"""Dead letters as they are read back, chosen, and sent on their way."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stream_guard.decoding.dead_letters import HEAD, DeadLetters
from stream_guard.decoding.reader import REDRIVEN, EventReader
from stream_guard.errors import SourceError
from stream_guard.history import chain
from stream_guard.history.database import open_database
from stream_guard.judge.counts import Counts
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.letters import Letter, LetterFilter, Redriver, _of_topic, read_letters
from stream_guard.settings import Settings

VALUES = (b'{"kind": "no such"}', b"\xff\xfe", b"x" * (HEAD + 1), b'{"a":\n1}')


def bury(path: Path, *values: bytes) -> None:
    with closing(DeadLetters(path, Counts(), format_name="native", now=lambda: 5000.0)) as letters:
        for number, value in enumerate(values):
            letters.add(
                Record(value=value, origin="events.jsonl", position=number, line=number + 1), f"reason {number}"
            )


def redriver(folder: Path, **options: Any) -> Redriver:
    database = open_database(str(folder / "history.db"))
    settings = {"to": "", "by": "ada", "clock": lambda: 6000.0, "again": False, **options}
    return Redriver(database, Settings().kafka, "dead.jsonl", **settings)


def test_letters_of_a_file_are_what_was_buried(tmp_path: Path) -> None:
    bury(tmp_path / "dead.jsonl", *VALUES)
    letters = list(read_letters(str(tmp_path / "dead.jsonl"), Settings()))
    assert [letter.value for letter in letters] == [*VALUES[:2], VALUES[2][:HEAD], VALUES[3]]
    assert [letter.cut for letter in letters] == [False, False, True, False]
    assert [(letter.line, letter.reason, letter.time) for letter in letters[:1]] == [(1, "reason 0", 5000.0)]
    assert len({letter.id for letter in letters}) == len(letters)


def test_letters_go_to_a_file_once_and_those_that_cannot_are_named(tmp_path: Path) -> None:
    bury(tmp_path / "dead.jsonl", *VALUES)
    letters = list(read_letters(str(tmp_path / "dead.jsonl"), Settings()))
    for sent in (2, 0):
        driver = redriver(tmp_path, to=str(tmp_path / "again.jsonl"))
        with closing(driver._database):
            driver.send([*letters, *letters])
            assert (driver.sent.total(), driver.stuck) == (sent, 4)
            recorded = [(record["letter"], record["by"]) for record in chain.records(driver._database)]
            assert recorded == [(letter.id, "ada") for letter in letters[:2]]
    assert (tmp_path / "again.jsonl").read_bytes() == VALUES[0] + b"\n" + VALUES[1] + b"\n"
    assert (tmp_path / "again.jsonl").stat().st_mode & 0o777 == 0o600


def test_letters_of_a_file_do_not_go_anywhere_by_themselves(tmp_path: Path) -> None:
    bury(tmp_path / "dead.jsonl", VALUES[0])
    driver = redriver(tmp_path)
    with closing(driver._database):
        driver.send(read_letters(str(tmp_path / "dead.jsonl"), Settings()))
    assert (driver.sent.total(), driver.stuck) == (0, 1)


@pytest.mark.parametrize("line", [b"{}", b"no json", b'{"reason": 1}'])
def test_a_line_that_is_no_letter_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "other.jsonl").write_bytes(line + b"\n")
    with pytest.raises(SourceError, match=r"other\.jsonl:1: no dead letter"):
        list(read_letters(str(tmp_path / "other.jsonl"), Settings()))


def headers(**own: str) -> tuple[tuple[str, bytes], ...]:
    return tuple((f"stream_guard_{name}", value.encode()) for name, value in own.items())


def test_headers_that_a_producer_forged_do_not_say_where_a_letter_goes() -> None:
    forged = headers(origin="stream-guard.alerts/0", redriven="x", reason="mine")
    own = headers(reason="not JSON", **{"class": "decode"}, origin="events/3", offset="12")
    letter = _of_topic(Record(value=b"v", key=b"k", headers=(("trace", b"1"), *forged, *own), time=7.0))
    assert (letter.topic, letter.position, letter.reason) == ("events", 12, "not JSON")
    assert letter.headers == (("trace", b"1"),), "none of ours, and none that pretends to be"


@pytest.mark.parametrize("own", [{}, {"reason": "r", "origin": "events/3", "offset": "many"}])
def test_a_record_that_is_no_letter_is_named(own: dict[str, str]) -> None:
    with pytest.raises(SourceError, match=r"dead/0 @4: no dead letter"):
        _of_topic(Record(value=b"v", origin="dead/0", position=4, headers=headers(**own)))


def test_filters_take_what_they_say() -> None:
    letter = Letter(
        id="abcd1234", reason="Not JSON", about="decode", origin="events/3", position=1, time=50.0, value=b""
    )
    taking: tuple[dict[str, Any], ...] = (
        {},
        {"ids": ("abcd",)},
        {"reason": "not json"},
        {"topic": "events"},
        {"since": 50.0, "until": 50.1},
    )
    leaving: tuple[dict[str, Any], ...] = (
        {"ids": ("b",)},
        {"reason": "size"},
        {"about": "oversize"},
        {"topic": "event"},
        {"since": 50.1},
        {"until": 50.0},
    )
    assert all(LetterFilter(**fields).takes(letter) for fields in taking)
    assert not any(LetterFilter(**fields).takes(letter) for fields in leaving)


def test_events_of_a_letter_that_comes_back_twice_have_the_same_ids_and_their_own_stay() -> None:
    reader = EventReader(
        build_registry().decoders["native"].configure_among(Settings(), {}),
        DeadLetters(None, Counts(), format_name="native"),
    )
    event = {"kind": "user_message", "session_id": "s", "text": "hello"}
    back = (("h", b""), (REDRIVEN, b"abc"))
    nameless, named = (
        Record(value=json.dumps({**event, **own}).encode(), headers=back) for own in ({}, {"event_id": "e1"})
    )
    assert [[one.event_id for one in reader.read(record)] for record in (nameless, nameless, named)] == [
        ["letter-abc-0"],
        ["letter-abc-0"],
        ["e1"],
    ]


def test_rules_are_told_of_a_call_that_cannot_be_read_when_it_comes_first_and_not_again() -> None:
    reader = EventReader(
        build_registry().decoders["native"].configure_among(Settings(), {}),
        DeadLetters(None, Counts(), format_name="native"),
    )
    value = b'{"kind": "tool_call", "session_id": "s", "tool": 5}'
    assert len(reader.read(Record(value=value))) == 1
    assert reader.read(Record(value=value, headers=((REDRIVEN, b"abc"),))) == []
