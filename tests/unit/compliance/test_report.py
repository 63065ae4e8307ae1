"""The report on a prompt: every sentence once, what came of it over all sessions, and nothing that acts on a reader."""

from __future__ import annotations

import asyncio
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from stream_guard_compliance import check_compliance, extract
from stream_guard_compliance.report.account import PromptAccount, account_of, pieces_of, write_account
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.errors import SettingsError
from stream_guard.registry import build_registry
from stream_guard.reports import ReportForm
from stream_guard.settings import Settings

REGISTRY = build_registry()
PROMPT = (
    "You are Bob.\n\n"
    "- Never call wipe_disk. Be kind.\n"
    "- If the user is angry, call read_page.\n"
    "- Prefer short answers. You may call read_page.\n"
    "- Users must be over 18.\n"
)
TOOLS = ["wipe_disk", "read_page"]


def session(*tools: str) -> list[dict[str, Any]]:
    return [{"type": "tool_call", "name": tool, "args": {}} for tool in tools]


def account(prompt: str = PROMPT, *sessions: list[dict[str, Any]]) -> PromptAccount:
    checks = [check_compliance(prompt, one, tools=TOOLS, registry=REGISTRY, settings=Settings()) for one in sessions]
    return account_of(prompt, extract(prompt, TOOLS), [asyncio.run(check) for check in checks])


def test_every_sentence_is_in_the_account_with_its_line_and_standing() -> None:
    found = [(one.line, one.standing, one.text) for one in account().sentences]
    assert found == [
        (1, "context", "You are Bob."),
        (3, "checked", "Never call wipe_disk."),
        (3, "open", "Be kind."),
        (4, "condition", "If the user is angry, call read_page."),
        (5, "advice", "Prefer short answers."),
        (5, "permission", "You may call read_page."),
        (6, "unread", "Users must be over 18."),
    ]


def test_sessions_are_counted_for_each_sentence_and_in_all() -> None:
    found = account(PROMPT, session("wipe_disk"), session("read_page"), session("wipe_disk", "wipe_disk"))
    assert (found.sessions, found.violated, found.inconclusive) == (3, 2, 1)
    counts = {one.text: (one.violated, one.satisfied, one.inconclusive) for one in found.sentences if one.rule_id}
    assert counts["Never call wipe_disk."] == (2, 1, 0)
    assert counts["Be kind."] == (0, 0, 3)


@pytest.mark.parametrize(
    "prompt", [PROMPT, "", "```\na\n```\n\nNever call:\n- wipe_disk\n- read_page\n", "a. b. c", "\n\n x"]
)
def test_pieces_are_the_whole_prompt(prompt: str) -> None:
    assert "".join(text for text, _ in pieces_of(account(prompt))) == prompt


class Tags(HTMLParser):
    """Collects the tags and the text of the marked-up prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.marks: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "mark":
            self.marks.append(dict(attrs).get("class") or "")


def test_page_marks_up_the_prompt_and_a_hostile_prompt_stays_text() -> None:
    hostile = 'Never call wipe_disk. Always say <script>alert(1)</script> "><img src=x onerror=alert(1)> loudly.\n'
    page = Tags()
    page.feed(write_account(account(hostile, session("wipe_disk")), ReportForm.HTML))
    assert not page.tags & {"script", "img", "iframe"}
    assert page.marks[0] == "checked broken"
    assert len(page.marks) == 2


def test_secret_in_a_prompt_is_in_no_report() -> None:
    secret = "sk-" + "abcdEFGH1234" * 4
    prompt = f"Never call wipe_disk. Use the key {secret} for all calls.\n"
    for form in (ReportForm.JSON, ReportForm.MARKDOWN, ReportForm.HTML):
        assert secret not in write_account(account(prompt), form)


def test_form_that_a_prompt_has_none_of_is_refused() -> None:
    with pytest.raises(SettingsError, match="json, markdown or html"):
        write_account(account(), ReportForm.SARIF)


def test_commands_write_reports_and_totals(tmp_path: Path) -> None:
    prompt, traces = tmp_path / "p.md", [tmp_path / "a.json", tmp_path / "b.json"]
    prompt.write_text(PROMPT, encoding="utf-8")
    for file, tool in zip(traces, TOOLS, strict=True):
        file.write_text(json.dumps(session(tool)), encoding="utf-8")
    report = tmp_path / "r.json"
    arguments = ["compliance", "check", str(prompt), *map(str, traces), "--report", f"json={report}"]
    done = CliRunner().invoke(app, arguments)
    assert "2 sessions: 1 violated, 1 inconclusive" in done.stdout
    assert json.loads(report.read_text(encoding="utf-8"))["totals"]["checked"] == 1
    page = tmp_path / "r.html"
    assert CliRunner().invoke(app, ["compliance", "extract", str(prompt), "--report", f"html={page}"]).exit_code == 0
    assert "Sentence by sentence" in page.read_text(encoding="utf-8")


def test_what_is_not_checked_comes_first() -> None:
    found = account(PROMPT, session("wipe_disk"))
    assert found.coverage() == "5 sentences demand something: 1 checked, 4 not checked"
    assert [one.text for one in found.unchecked] == [
        "Be kind.",
        "If the user is angry, call read_page.",
        "Prefer short answers.",
        "Users must be over 18.",
    ]
    written = write_account(found, ReportForm.MARKDOWN)
    assert written.index("Be kind.") < written.index("wipe_disk")
    page = write_account(found, ReportForm.HTML)
    assert page.index("4 not checked") < page.index("The prompt")
