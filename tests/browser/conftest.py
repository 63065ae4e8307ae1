"""What the tests of pages share: a browser, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.devtools import CHROMIUM, Browser, browser
from tests.parts import require


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser that the tests of one module share."""
    require(CHROMIUM, "no Chromium is installed (Debian: apt-get install chromium)")
    with browser() as opened:
        yield opened
