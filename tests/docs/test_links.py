"""Links between pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "plugins").glob("example_*/*.md")]
)


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_of(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text())
    broken = [link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()]
    assert broken == []
