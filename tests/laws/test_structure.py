"""One word for one thing, and each thing in its place: class names, the glossary, the folders of the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.reports.structure import class_names, main, measure

pytestmark = pytest.mark.xdist_group("structure")  # the whole tree is parsed, once

# Classes whose name the glossary keeps from another thing, and what they are instead.
OTHER_THINGS = {
    "Action": "what a gate does about an attempt",
    "Check": "one question that doctor asks about a topic",
    "Conversation": "the messages of a chat format, before they are events of a session",
    "Database": "where a history is written, beside the stores of sessions",
    "Index": "which rules want to see an event",
    "Memory": "what a decoder remembers between records",
    "Registry": "everything that plugins provide",
    "Transcript": "a chat as a recording holds it",
    "Violation": "the compliance pack's answer, in the words of the API it stands in for",
}


def glossary(root: Path) -> list[list[str]]:
    """Return the rows: the words, what they mean, and what is not to be said for them."""
    lines = (root / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    return rows[1:]


def words_of(cell: str) -> list[str]:
    return [word.strip() for word in cell.split(",") if word.strip()]


def as_class(word: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[\s-]+", word))


def test_a_class_name_is_used_once(root: Path) -> None:
    assert {name: places for name, places in class_names(root).items() if len(places) > 1} == {}


def test_a_word_stands_in_the_glossary_once(root: Path) -> None:
    words = [word for row in glossary(root) for word in words_of(row[0])]
    assert sorted(words) == sorted(set(words))
    assert all(row[1] for row in glossary(root))


def test_every_word_of_the_glossary_is_used(root: Path) -> None:
    files = [path for folder in ("stream_guard", "plugins", "docs") for path in (root / folder).rglob("*")]
    read = [path for path in files if path.suffix in (".py", ".md") and path.name != "glossary.md"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in read if "adr" not in path.parts).lower()
    words = [word.strip("`").lower() for row in glossary(root) for word in words_of(row[0])]
    patterns = {word: rf"\b{re.escape(word).replace(chr(92) + ' ', '[ _]')}s?\b" for word in words}
    assert [word for word, pattern in patterns.items() if not re.search(pattern, text)] == []


def test_what_the_glossary_says_not_to_say_is_no_class_name(root: Path) -> None:
    rows = glossary(root)
    words = {word for row in rows for word in words_of(row[0])}
    avoided = {as_class(word) for row in rows for word in words_of(row[2]) if word not in words}
    assert sorted((avoided & set(class_names(root))) - set(OTHER_THINGS)) == []


def test_every_folder_of_tests_stands_once_in_the_table_of_folders(root: Path) -> None:
    page = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `tests/(\w+)/` \|", page, flags=re.MULTILINE)
    folders = [path.name for path in (root / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert sorted(named) == sorted(folders)


def test_unit_tests_stand_in_the_rooms_of_the_code(root: Path) -> None:
    rooms = {path.name for path in (root / "stream_guard").iterdir()}
    packs = {path.name.removeprefix("stream_guard_") for path in (root / "plugins").glob("stream_guard_*")}
    folders = {path.name for path in (root / "tests" / "unit").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert folders <= rooms | packs


def test_the_report_counts_what_a_reader_meets(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    core, pack = tmp_path / "stream_guard", tmp_path / "plugins" / "stream_guard_pack"
    (core / "room").mkdir(parents=True)
    pack.mkdir(parents=True)
    (core / "__init__.py").write_text("")
    (core / "loose.py").write_text("class Twice:\n    pass\n")
    (core / "room" / "__init__.py").write_text("")
    (core / "room" / "small.py").write_text("class State:\n    pass\n")
    (core / "room" / "user.py").write_text("import stream_guard.loose\nimport stream_guard.room.small\n")
    (pack / "__init__.py").write_text("import stream_guard.loose\n\n\nclass Twice:\n    class State:\n        pass\n")
    found = measure(tmp_path)
    assert found.root_modules == ("__init__", "loose")
    assert found.modules == 6
    assert found.single_importer == {"stream_guard.room.small": "stream_guard.room.user"}
    assert found.shared_classes == {"Twice": ("stream_guard.loose", "stream_guard_pack")}
    assert main([str(tmp_path)]) == 0
    assert "class names used more than once: 1" in capsys.readouterr().out
    assert len(measure(root).root_modules) <= 12
