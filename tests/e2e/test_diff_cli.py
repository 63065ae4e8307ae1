"""``stream-guard diff`` as a build calls it: exit codes, and reports that are there before the gate answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from stream_guard_diff.agentlog import agentlog_lines

from tests import processes
from tests.unit.diff.sample import session, turn

BASE = session(turn("hello"), turn("", ("look", {"q": 1}), stop="tool_use"), turn("done"))


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return processes.run("diff", *arguments, cwd=folder, text=True)


def test_a_build_gets_its_answer_and_its_reasons(tmp_path: Path) -> None:
    extra = session(
        turn("hello"), turn("", ("look", {"q": 1}), stop="tool_use"), turn("", ("delete_all", {})), turn("done")
    )
    for name, events in (("old", BASE), ("new", extra)):
        (tmp_path / f"{name}.agentlog").write_text("".join(f"{line}\n" for line in agentlog_lines(events)))
    same = run("old.agentlog", "old.agentlog", "--fail-on", "minor", folder=tmp_path)
    assert same.returncode == 0, same.stderr
    changed = run("old.agentlog", "new.agentlog", "--report", "html=page.html", folder=tmp_path)
    assert changed.returncode == 1
    assert "Must not merge: trajectory is severe" in " ".join(changed.stdout.split())
    assert "delete_all" in (tmp_path / "page.html").read_text()
    assert run("old.agentlog", "new.agentlog", "--fail-on", "none", folder=tmp_path).returncode == 0


def test_what_cannot_be_told_is_never_a_pass(tmp_path: Path) -> None:
    (tmp_path / "empty.agentlog").write_text("")
    (tmp_path / "broken.agentlog").write_text("{\n")
    assert run("empty.agentlog", "empty.agentlog", folder=tmp_path).returncode == 4
    assert run("broken.agentlog", "broken.agentlog", folder=tmp_path).returncode == 4
    assert run("absent.agentlog", "empty.agentlog", folder=tmp_path).returncode == 3
    usage = run("empty.agentlog", "empty.agentlog", "--report", "pdf=x", folder=tmp_path)
    assert usage.returncode == 2
    assert "FORM=FILE" in usage.stderr
