"""The page of a contract in a real browser: the matrix is seen, it is silent, and hostile answers stay text."""

from __future__ import annotations

from pathlib import Path

import pytest
from stream_guard_contract.report import write_matrix

from tests.browser.devtools import Browser
from tests.contract_pack.answers import answered, contract, matrix_of

pytestmark = [pytest.mark.browser, pytest.mark.long]

HOSTILE = (
    "</bdi></td><script>window.owned = 1; fetch('http://127.0.0.1:9/')</script>"
    "<img src=http://127.0.0.1:9/x onerror='window.owned = 2'><style>body{display:none}</style>{{ 7 * 7 }}\u202e\x1b[2J"
)


def write(folder: Path, text: str, name: str = "cite") -> Path:
    promise = contract(
        {"id": name, "type": "contains", "value": "source", "severity": "critical"},
        {"id": "quick", "type": "latency", "max_ms": 1000},
        matrix=[{"name": "calm"}, {"name": "down", "tool_faults": [{"tool": "search", "mode": "error"}]}],
    )
    page = folder / "contract.html"
    matrix = matrix_of(promise, answered("source: x"), answered(text, "down", tools=[("search", "error")]))
    page.write_text(write_matrix(promise, matrix, "html"), encoding="utf-8")
    return page


def test_the_page_shows_verdict_score_and_the_reason_of_what_failed(chromium: Browser, tmp_path: Path) -> None:
    page = write(tmp_path, "no idea")
    chromium.open(page)
    assert chromium.evaluate("document.getElementById('verdict').innerText").startswith("Broken: cite.")
    assert chromium.evaluate("document.querySelector('.score').innerText") == "62.5 %"
    rows = "[...document.querySelectorAll('#matrix tr')].map(row => row.cells.length)"
    assert chromium.evaluate(rows) == [4, 4, 4]
    opened = "[...document.querySelectorAll('details[open]')].map(one => one.innerText)"
    (failed,) = chromium.evaluate(opened)
    assert 'the answer has no "source"' in failed
    assert "no idea" in failed
    assert (chromium.complaints(), chromium.requests()) == ([], [page.as_uri()])


@pytest.mark.parametrize("size", [1, 6000], ids=["short", "a megabyte"])
def test_a_hostile_answer_is_inert(chromium: Browser, tmp_path: Path, size: int) -> None:
    page = write(tmp_path, HOSTILE * size, HOSTILE[:190])
    assert page.stat().st_size < 100_000
    chromium.open(page)
    assert chromium.evaluate("window.owned === undefined")
    assert chromium.evaluate("document.scripts.length + document.images.length") == 0
    assert chromium.evaluate("getComputedStyle(document.body).display") == "block"
    shown = chromium.evaluate("document.body.innerText")
    assert "<script>" in shown
    assert not {"\u202e", "\x1b"} & set(shown)
    assert (chromium.complaints(), chromium.requests()) == ([], [page.as_uri()])
