"""The page that walks one event through the tree: the event really passes these functions, in this order."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.cli.demo import write_samples

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "walk.md").read_text()


def stops() -> Iterator[tuple[Path, str]]:
    """Yield each function that the numbered list names, with its file."""
    numbered = PAGE.split("\n1. ", 1)[1].split("\n## ", 1)[0]
    for file, text in re.findall(r"\]\(\.\./([\w/.]+\.py)\)(.*?)(?=\]\(|\Z)", numbered, re.DOTALL):
        for name in re.findall(r"`(?:\w+\.)?([a-z_]\w+)`", text):
            if re.search(rf"def {name}\(", (ROOT / file).read_text()):
                yield ROOT / file, name


def passed_by(folder: Path) -> list[tuple[Path, str]]:
    """Run the session of the page, and return the functions of the page's files in the order of their last call."""
    events, policy = write_samples(folder, 4)
    wanted = [line for line in events.read_text().splitlines() if '"refund-00003"' in line]
    events.write_text("\n".join(wanted) + "\n")
    files = {str(file) for file, _ in stops()}
    calls: list[tuple[Path, str]] = []

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename in files:
            calls.append((Path(frame.f_code.co_filename), frame.f_code.co_name))

    sys.setprofile(profile)
    threading.setprofile(profile)  # alerts are handed to a sink in a thread of its own
    try:
        sg.run(events, policy, alerts=[f"jsonl:{folder / 'alerts.jsonl'}"], checkpoint=folder / "progress.db")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert "confirm-before-refund" in (folder / "alerts.jsonl").read_text()
    return calls


def test_the_page_has_the_stops_of_an_event() -> None:
    listed = [name for _, name in stops()]
    assert len(listed) >= 15
    assert {"run", "read", "decode", "feed", "on_tool_call", "make_finding", "deliver", "commit"} <= set(listed)


def test_the_event_passes_the_stops_in_the_order_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls = passed_by(tmp_path)
    at = -1
    for file, name in stops():
        following = [place for place, call in enumerate(calls) if place > at and call == (file, name)]
        assert following, f"{file.relative_to(ROOT)}: {name} is not called after the stop before it"
        at = following[0]
