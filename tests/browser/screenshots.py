"""Pictures of every page, for people to look at: ``python -m tests.browser.screenshots FOLDER``."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from threading import Event as Flag
from typing import Any, Final

from stream_guard.cli.demo import write_samples
from stream_guard.guard.gate import Gate
from stream_guard.guard.reviews import Reviews
from stream_guard.history import alert_rows, incidents, inquiries, lessons, verdicts
from stream_guard.history.bypasses import Grant
from stream_guard.history.database import Database, open_database
from stream_guard.history.inquiries import AskedInquiry
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import ToolCall, ToolResult, UserMessage
from stream_guard.judge.spec import Policy
from stream_guard.page.app import PageServer
from stream_guard.running.assembly import Assembly
from stream_guard.running.embedded import RunOptions, open_run
from stream_guard.settings import load_settings
from tests import processes
from tests.browser.devtools import CHROMIUM
from tests.browser.test_diff_page import write

_PAUSE: Final = """
  - id: a-person-looks-at-payouts
    kind: no_call
    params: { tool: send_payout }
    severity: warning
    then: pause
    reason: Payouts outside the shop need a person.
"""
_SIZES: Final = {"light": (1160, 760), "dark": (1160, 760), "phone": (390, 780)}


def main(folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        settings = load_settings(
            None, history={"url": str(place / "history.db")}, page={"port": 0, "reports": place / "reports"}
        )
        with Assembly(settings) as assembly:
            events, policy_file = write_samples(place, 240, recent=True)
            policy_file.write_text(policy_file.read_text() + _PAUSE)
            policy, counts = assembly.load_policy(policy_file), Counts()
            page = PageServer(assembly, lambda: policy, counts, policy_file)
            options = RunOptions(
                source=str(events), policy=policy, alerts=("history",), watch=page.keeper.keep, counts=counts
            )
            open_run(options, assembly, Flag()).runner.run()
            page.keeper.flush()
            database = open_database(settings.history.url)
            _act(policy, database, page)
            _learn(events, database)
            _ask(database)
            _report(place / "reports")
            _take(folder, page.url, _paths(database))
            database.close()


def _act(policy: Policy, database: Database, page: PageServer) -> None:
    """Let agents ask and people answer."""
    reviews = Reviews(database)
    for number in range(4):
        _talk(page, f"payout-{number:04}")
    page.keeper.flush()
    gate = Gate(policy, database, reviews=reviews, emit=page.keeper.keep_one)
    asked = [
        gate.check(
            ToolCall(
                session_id=f"payout-{number:04}",
                tool="send_payout",
                call_id=f"p{number}",
                event_id=f"p{number}",
                time=time.time(),
                agent="refund-agent@3",
                args={"iban": f"DE89 3704 0044 0532 0130 0{number}", "amount": amount, "reason": "goodwill"},
            )
        )
        for number, amount in enumerate((48.5, 120.0, 75.0, 310.0))
    ]
    held = asked[0].review
    if held is not None:
        reviews.bypass(held.id, Grant(by="ada", note="bank holiday, batch of goodwill payouts", seconds=900))
    for number, noted in enumerate(alert_rows.since(database, 0, 60)):
        word: verdicts.Word = "right" if number % 4 else "wrong"
        verdicts.give(database, noted.alert.alert_id, word, by="ada", time=time.time(), note="checked with the shop")
    page.keeper.flush()


def _talk(page: PageServer, session: str) -> None:
    """Write what comes before a payout."""
    common: dict[str, Any] = {"session_id": session, "agent": "refund-agent@3"}
    began = time.time() - 20
    asked = "Your courier broke the vase. I want something for the trouble, to my account please."
    order = {"order_id": "A-10441", "paid": 310, "status": "damaged"}
    page.keeper.keep(
        (
            UserMessage(event_id="u1", time=began, text=asked, **common),
            ToolCall(event_id="l1", time=began + 3, tool="lookup_order", args={"order_id": "A-10441"}, **common),
            ToolResult(event_id="l2", time=began + 4, tool="lookup_order", output=order, **common),
            UserMessage(event_id="u2", time=began + 15, text="Yes, that account is mine.", **common),
        )
    )


def _learn(events: Path, database: Database) -> None:
    """Propose rules from the sample sessions, and have a person answer one of them."""
    environment = {"STREAM_GUARD_HISTORY__URL": str(events.parent / "history.db")}
    learned = processes.run("learn", events, "--policy", events.parent / "learned.yaml", "--save", env=environment)
    assert learned.returncode == 0, learned.stderr.decode()
    first = lessons.listing(database)[0]
    lessons.decide(database, first.id, "accepted", by="ada", note="it is in our handbook", time=time.time())


def _ask(database: Database) -> None:
    """Let a judge have been asked, with an answer of each sort."""
    answers: list[dict[str, Any]] = [
        {"violated": True, "explanation": "The customer gave no reason; the agent made one up."},
        {"violated": False, "explanation": "The customer said that the vase came broken."},
        {"violated": None, "state": "refused", "explanation": "the budget of rule refund-reasons is used up"},
    ]
    for number, fields in enumerate(answers):
        line = {"event": "tool_call", "tool": "issue_refund", "args": {"amount": 120 + number}, "asked": True}
        inquiry = AskedInquiry(
            id=f"{number:032x}",
            rule_id="refund-reasons",
            model="small-and-quick",
            words="A refund needs a reason that the customer gave.",
            excerpt=(json.dumps(line),),
            opened=time.time() - 60 * number,
            confidence=0.9,
            tokens=612,
            cost_usd=0.0011,
            **{"state": "answered", **fields},
        )
        with database.transaction() as statements:
            inquiries.put(statements, inquiry, 0.0)


def _report(folder: Path) -> None:
    folder.mkdir()
    write(folder, "I will pay this out at once, as you asked.", "issue_refund").rename(folder / "diff-candidate.html")
    (folder / "contract-2026-11.md").write_text("# Contract\n\n12 of 12 scenarios passed.\n")


def _paths(database: Database) -> dict[str, str]:
    critical = alert_rows.page(database, alert_rows.AlertFilter(rule="confirm-before-refund"), limit=1).alerts[0].alert
    [(review,)] = database.read(
        "SELECT id FROM sg_reviews WHERE kind = 'anomaly_review' AND status = 'open' ORDER BY opened LIMIT 1"
    )
    incident = incidents.incident_id(critical.session_id, critical.rule_id)
    return {
        "alerts": "/",
        "alert": f"/alerts/{critical.alert_id}",
        "session": f"/sessions/{critical.session_id}?event={critical.event_id}",
        "reviews": "/reviews",
        "review": f"/reviews/{review}",
        "incident": f"/incidents/{incident}",
        "rules": "/rules",
        "activity": "/activity",
        "reports": "/reports/diff-candidate.html",
        "policy": "/policy",
        "learned": "/learned",
        "judge": "/judge",
    }


def _take(folder: Path, url: str, paths: dict[str, str]) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser: Any = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme, (width, height) in _SIZES.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
            )
            tab = context.new_page()
            for name, path in paths.items():
                tab.goto(f"{url}{path}")
                tab.wait_for_timeout(300)
                tab.screenshot(path=folder / f"{name}-{scheme}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
