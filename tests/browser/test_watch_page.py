"""The page of what agents do, in a real browser: it grows with their files, and hostile texts stay text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stream_guard_shell.watching.watcher import Watcher, WatchPage, existing_folders

from tests.browser.devtools import Browser

pytestmark = [pytest.mark.browser, pytest.mark.long]
HOSTILE = "<img src=x onerror='window.owned = 1'><script>window.owned = 2</script>\u202e"


def lines(number: int, tool: str, args: dict[str, Any], *, failed: bool = False) -> str:
    """Return a call and its result as Claude Code writes them."""
    common = {
        "sessionId": "5e55",
        "cwd": "/home/ann/app",
        "version": "2.1.0",
        "timestamp": f"2026-11-01T10:00:{number:02}Z",
    }
    usage = {"input_tokens": 100, "output_tokens": 20}
    call = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": args}
    said = {"id": f"m{number}", "role": "assistant", "model": "m", "content": [call], "usage": usage, "type": "message"}
    back = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "done", "is_error": failed}
    told = [
        {"type": "assistant", "uuid": f"a{number}", "message": said, **common},
        {"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": [back]}, **common},
    ]
    return "".join(json.dumps(line) + "\n" for line in told)


@contextmanager
def watched(folder: Path) -> Iterator[tuple[Watcher, WatchPage]]:
    watcher = Watcher([folder], 0.0)
    page = WatchPage(watcher.state)
    try:
        yield watcher, page
    finally:
        page.close()


def shown(chromium: Browser, wanted: str) -> str:
    """Wait until the page, which looks every second, shows a text; return what it shows."""
    is_there = f"document.body.innerText.includes({json.dumps(wanted)})"
    look = (
        f"const look = () => {is_there} || ++looks > 3000 ? done(document.body.innerText) : requestAnimationFrame(look)"
    )
    wait = f"new Promise(done => {{ let looks = 0; {look}; look(); }})"
    text: str = chromium.evaluate(wait)
    assert wanted in text
    return text


def test_the_page_shows_what_an_agent_created_deleted_and_spent_while_it_goes_on(
    chromium: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / ".claude" / "projects"
    (folder / "-home-ann-app").mkdir(parents=True)
    assert existing_folders(tmp_path) == [folder]
    file = folder / "-home-ann-app" / "5e55.jsonl"
    file.write_text(lines(1, "Write", {"file_path": "/home/ann/app/new.py", "content": "x"}), encoding="utf-8")
    with watched(folder) as (watcher, page):
        watcher.look()
        chromium.open_url(page.url + "/")
        assert "/home/ann/app/new.py" in shown(chromium, "Created (1)")
        with file.open("a", encoding="utf-8") as growing:
            growing.write(lines(2, "Bash", {"command": "rm -rf ~/old"}))
            growing.write(lines(3, "Bash", {"command": f'rm -rf /srv/failed; echo "{HOSTILE}"'}, failed=True))
            growing.write('{"type": "assistant", "half a line')
        watcher.look()
        text = shown(chromium, "Deleted (1)")
        gone = chromium.evaluate("[...document.querySelectorAll('.deleted li')].map(one => one.innerText)")
        assert gone == ["/home/ann/old"], "a call that failed deleted nothing"
        assert "deletes-stay-in-the-project" in text
        assert "tokens in\n300" in text
        assert "<script>" in text
        assert "\u202e" not in text
        assert chromium.evaluate("window.owned === undefined && document.images.length === 0")
    assert chromium.complaints() == []
