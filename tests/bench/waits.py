"""What somebody waits for in a browser, measured where they wait for it: in Chromium, by its own clocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

from tests.bench.measure import seconds_of_children
from tests.browser.devtools import CHROMIUM

LIMIT: Final = 200.0  # milliseconds that somebody may wait for an answer to an input
_FIRST_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_ANSWER: Final = "(([page]) => page.responseStart - page.requestStart)(performance.getEntriesByType('navigation'))"

# Every wait from an input to the next picture, and every task that kept the page busy.
_WATCH: Final = """
window.waits = []; window.busy = []; window.frames = 0;
const keep = (name) => (list) => window[name].push(
  ...list.getEntries().filter((one) => one.interactionId !== 0).map((one) => [one.interactionId ?? 0, one.duration]));
new PerformanceObserver(keep("waits")).observe({type: "event", durationThreshold: 16});
new PerformanceObserver(keep("busy")).observe({type: "longtask"});
document.addEventListener("htmx:sseMessage", () => { window.frames += 1; });
"""


@contextmanager
def chromium_page() -> Iterator[Any]:
    """Open a page of Chromium that notes how long people wait."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser: Any = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
        page.add_init_script(_WATCH)
        yield page
        browser.close()


class Waits:
    """What somebody waits for in a browser, in milliseconds."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self._url = url
        self._times: dict[str, list[float]] = {}
        self._tasks: list[float] = []  # that kept the page busy for 50 ms and more
        self._opened = 0
        self._began = seconds_of_children("chrom")
        self.frames = 0
        self.elements = 0  # of the largest page

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)
        self.collect()

    def open(self, name: str, path: str = "", link: str = "") -> None:
        """Note how long a page takes to show something, from the click on."""
        if link:
            self.collect()
            with self.page.expect_navigation():
                self.page.click(link)
        else:
            self.page.goto(f"{self._url}{path}")
        painted = None
        while painted is None:
            painted = self.page.evaluate(_FIRST_PAINT)
        self._times.setdefault(name, []).append(painted)
        self._times.setdefault("of that, the server's answer", []).append(self.page.evaluate(_ANSWER))
        self._opened += 1

    def part(self, name: str, script: str) -> None:
        """Note what a script in the page returns: how long a part of the page took."""
        self._times.setdefault(name, []).append(self.page.evaluate(script))
        self.collect()

    def collect(self) -> None:
        """Take over what the open page noted since it was asked last: inputs of 16 ms and more, and long tasks."""
        self.page.wait_for_timeout(60)  # an input is noted with the picture that follows it
        noted = self.page.evaluate(
            "() => { const count = performance.interactionCount; "
            "const told = [window.waits, window.busy, window.frames, count - (window.counted ?? 0)]; "
            "window.waits = []; window.busy = []; window.frames = 0; window.counted = count; "
            "return [...told, document.getElementsByTagName('*').length]; }"
        )
        waits: dict[int, float] = {}
        for interaction, took in noted[0]:
            waits[interaction] = max(took, waits.get(interaction, 0.0))
        short = [0.0] * max(0, noted[3] - len(waits))  # those that were not noted took less than 16 ms
        self._times.setdefault("input to picture", []).extend([*waits.values(), *short])
        self._tasks += [took for _, took in noted[1]]
        self.frames += noted[2]
        self.elements = max(self.elements, noted[4])

    def summary(self) -> dict[str, Any]:
        """Return the median and the longest of each sort in milliseconds, and what the browser did for it."""
        inputs = self._times["input to picture"]
        done = len(inputs) + self._opened
        return {
            "median_and_longest_ms": {
                name: (round(median(times)), round(max(times))) for name, times in self._times.items() if times
            },
            "inputs": len(inputs),
            "inputs_over_200_ms": sum(1 for took in inputs if took > LIMIT),
            "long_tasks": len(self._tasks),
            "longest_task_ms": round(max(self._tasks, default=0.0)),
            "browser_ms_each": round((seconds_of_children("chrom") - self._began) * 1000 / done),
            "elements": self.elements,
        }
