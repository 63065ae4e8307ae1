"""The command that makes tokens: what it prints, what it keeps, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

from stream_guard.serve.tokens import TokenFile
from tests import processes


def tokens(folder: Path, *words: str, code: int = 0) -> tuple[str, str]:
    done = processes.run("tokens", *words, "--file", folder / "tokens", text=True)
    assert done.returncode == code, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_token_is_shown_once_known_by_its_digest_listed_and_taken_away(tmp_path: Path) -> None:
    ada, said = tokens(tmp_path, "new", "ada", "--role", "reviewer", "--tenant", "acme")
    assert "the only time that the token of ada (reviewer) is shown" in said
    bot, _ = tokens(tmp_path, "new", "bot", "--role", "agent", "--agent", "helper")
    assert ada not in (tmp_path / "tokens").read_text()
    known = TokenFile(tmp_path / "tokens")
    found = [known.find(token.encode()) for token in (ada, bot, "sg_wrong")]
    assert [entry and (entry.name, entry.role, entry.tenant, entry.agents) for entry in found] == [
        ("ada", "reviewer", "acme", ()),
        ("bot", "agent", "", ("helper",)),
        None,
    ]
    listed, _ = tokens(tmp_path, "list", "--format", "json")
    assert [entry["name"] for entry in json.loads(listed)] == ["ada", "bot"]
    tokens(tmp_path, "remove", "bot")
    assert known.find(bot.encode()) is None


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    assert "brings no attempts" in tokens(tmp_path, "new", "a", "--role", "reviewer", "--agent", "b", code=2)[1]
    assert "is no name" in tokens(tmp_path, "new", "a", "--role", "agent", "--tenant", "x/y", code=2)[1]
    assert not (tmp_path / "tokens").exists()
    assert "cannot be read" in tokens(tmp_path, "remove", "a", code=2)[1]
    nowhere = processes.run("tokens", "list", text=True)
    assert (nowhere.returncode, "say where the tokens are" in nowhere.stderr) == (2, True)
