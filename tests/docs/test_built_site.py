"""The site as it is built: without a warning, with a search that finds words of every page, and without a dead link."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from stream_guard.cookbook.ranking import read_recipes

ROOT = Path(__file__).parents[2]
SITE = ROOT / ".cache" / "site"

pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """The addresses that a page leads to, and the places in it that others may lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag leads to, or is called."""
        for name, value in attrs:
            if value and (name == "href" or (name == "src" and tag in ("img", "script"))):
                self.targets.append(value)
            elif value and name == "id":
                self.places.add(value)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Links]:
    """The pages of the site, built now."""
    done = subprocess.run(["make", "docs", f"VENV={sys.prefix}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING -" not in done.stdout + done.stderr
    return {page: Links(page) for page in SITE.rglob("*.html")}


def test_every_link_leads_to_a_page_and_a_place_in_it(pages: dict[Path, Links]) -> None:
    dead = []
    for page, links in pages.items():
        for target in links.targets:
            if re.match(r"[a-z]+:|//", target) or page.name == "404.html":
                continue
            path, _, place = target.partition("#")
            led = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            led = led / "index.html" if led.is_dir() else led
            if not led.exists() or (place and led in pages and unquote(place) not in {*pages[led].places, "__tabbed"}):
                dead.append(f"{page.relative_to(SITE)}: {target}")
    assert len(pages) > 40
    assert dead == []


def test_the_search_has_every_page(pages: dict[Path, Links]) -> None:
    found = json.loads((SITE / "search" / "search_index.json").read_text())["docs"]
    known = {entry["location"].partition("#")[0] for entry in found}
    assert {page.relative_to(SITE).as_posix() for page in pages} - {"404.html"} <= known | {""}
    assert any("agent-stream-guard" in entry["text"] for entry in found)


def test_no_page_asks_another_machine_for_anything(pages: dict[Path, Links]) -> None:
    asked = re.compile(r"<(?:script|img|link)[^>]+(?:src|href)=\"(?:https?:)?//", re.IGNORECASE)
    assert [page.name for page in pages if asked.search(page.read_text(encoding="utf-8"))] == []


def test_the_search_finds_every_wish_by_its_words(pages: dict[Path, Links]) -> None:
    assert pages
    found = json.loads((SITE / "search" / "search_index.json").read_text())["docs"]
    sections = {entry["title"]: entry["text"] for entry in found if entry["location"].startswith("cookbook.html#")}
    for recipe in read_recipes().values():
        text = unescape(re.sub(r"<[^>]+>", "", sections[escape(recipe.wish.removesuffix("."), quote=False)]))
        assert all(phrase in text for phrase in recipe.also), recipe.name
