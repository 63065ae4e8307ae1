"""The site: every page is in its navigation once, and every link, with the heading it names, leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from deploy.docs_hooks import on_page_markdown

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def in_navigation(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from in_navigation(inner)


@cache
def headings(page: Path) -> frozenset[str]:
    """Return the anchors of a page, as GitHub and the site both make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.strip().lower()) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    return frozenset(title.replace(" ", "-") for title in plain)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(in_navigation(YAML(typ="safe", pure=True).load(ROOT / "mkdocs.yml")["nav"]))
    assert len(listed) == len(set(listed))
    decisions = {page for page in PAGES if page.startswith("adr/0")}  # listed on their own page
    missing = set(PAGES) - decisions - set(listed)
    assert missing == set(), "give these pages a place under nav in mkdocs.yml"
    assert set(listed) <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_that_the_site_keeps_lead_to_a_page_and_a_heading(page: str) -> None:
    broken = []
    for link in LINK.findall(on_page_markdown((DOCS / page).read_text(encoding="utf-8"))):
        target, _, heading = link.partition("#")
        if "://" in link:
            continue
        file = (DOCS / page).parent / target if target else DOCS / page
        inside = file.resolve().is_relative_to(DOCS)
        if not inside or not file.exists() or (heading and heading not in headings(file.resolve())):
            broken.append(link)
    assert broken == []


def test_a_link_to_code_becomes_its_text_and_others_stay() -> None:
    page = "[`a.py`](../stream_guard/a.py), [b](b.md#c), [d](../serve.md), [e](adr/0001-x.md)"
    assert on_page_markdown(page) == "`a.py`, [b](b.md#c), [d](../serve.md), [e](adr/0001-x.md)"
