"""The decisions in docs/adr have one form, are listed, and exist wherever the code cites them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "adr"
PAGES = sorted(path.name for path in FOLDER.glob("[0-9]*.md"))


def test_numbers_have_no_gap() -> None:
    assert [page[:4] for page in PAGES] == [f"{number:04}" for number in range(1, len(PAGES) + 1)]


@pytest.mark.parametrize("page", PAGES)
def test_page_says_what_was_decided_and_what_was_given_up(page: str) -> None:
    text = (FOLDER / page).read_text()
    assert text.startswith(f"# {page[:4]} ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "What we gave up"]


@pytest.mark.parametrize("page", PAGES)
def test_page_is_listed(page: str) -> None:
    assert f"]({page})" in (FOLDER / "README.md").read_text()


def test_every_decision_the_code_cites_exists(root: Path) -> None:
    cited = {
        (number, path.relative_to(root).as_posix())
        for folder in ("stream_guard", "plugins", "tests", "docs", "deploy")
        for path in (root / folder).rglob("*")
        if path.suffix in {".py", ".md", ".yaml", ".yml"} and "node_modules" not in path.parts
        for number in re.findall(r"(?:ADR |docs/adr/)(\d{4})", path.read_text())
    }
    assert cited
    assert [place for place in sorted(cited) if place[0] not in {page[:4] for page in PAGES}] == []
