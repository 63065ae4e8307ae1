"""The watcher without a browser: which lines it reads, who may ask for the page, and what it forgets."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from stream_guard_shell.watching.watcher import Activities, FileFollower, WatchPage

import stream_guard as sg


def texts(follower: FileFollower) -> list[bytes]:
    return [line.text for line in follower.look()]


def test_whole_lines_are_read_once_and_a_file_that_was_written_anew_again(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "s.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b'{"n": 1}\n\n{"n": 2')
    (tmp_path / "notes.txt").write_text("no session")
    follower = FileFollower([tmp_path], 0.0)
    assert texts(follower) == [b'{"n": 1}\n']
    assert texts(follower) == []
    with file.open("ab") as growing:
        growing.write(b"}\n")
    assert texts(follower) == [b'{"n": 2}\n']
    file.write_bytes(b"{}\n")
    assert texts(follower) == [b"{}\n"]


def test_old_sessions_links_and_folders_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    old, linked = tmp_path / "old.jsonl", tmp_path / "linked.jsonl"
    old.write_bytes(b"{}\n")
    os.utime(old, (1000, 1000))
    (tmp_path / "circle").symlink_to(tmp_path)
    linked.symlink_to(old)
    assert texts(FileFollower([tmp_path, tmp_path / "nowhere"], 2000.0)) == []


def test_only_who_asks_this_machine_by_its_own_name_gets_an_answer() -> None:
    page = WatchPage(lambda: {"sessions": []})
    try:
        with urllib.request.urlopen(page.url + "/state", timeout=30) as answer:
            assert answer.read() == b'{"sessions": []}'
        for address, headers, status in (("/state", {"Host": "evil.example"}, 421), ("/../etc/passwd", {}, 404)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(page.url + address, headers=headers), timeout=30)
            assert refused.value.code == status
            refused.value.close()
    finally:
        page.close()


def test_sessions_and_what_they_did_are_bounded_and_counted() -> None:
    known = Activities()
    for number in range(150):
        known.take(sg.UserMessage(session_id=f"s{number}", time=float(number), text="hi"), "claude")
    assert [one["name"] for one in known.as_json()][:2] == ["s149", "s148"]
    assert len(known.as_json()) == 100
    for number in range(60):
        args = {"command": f"rm -rf /srv/{number}"}
        known.take(sg.ToolCall(session_id="s149", tool="Bash", call_id=str(number), args=args), "claude")
        known.take(sg.ToolResult(session_id="s149", tool="Bash", call_id=str(number), status="ok"), "claude")
    [session] = [one for one in known.as_json() if one["name"] == "s149"]
    assert session["totals"]["deleted"] == 60
    assert session["lists"]["deleted"][0] == "/srv/59"
    assert len(session["lists"]["deleted"]) == 40
