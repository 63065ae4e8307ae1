"""The page in a real browser: it is live, it opens, it answers, it is silent, and hostile text stays text."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_guard.serve.tokens import TokenEntry, make_token, write_tokens
from tests import plain_http, processes
from tests.browser.devtools import CHROMIUM
from tests.parts import import_part, require

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.xdist_group("page")]

AXE = Path(__file__).parents[1] / "editor" / "node_modules" / "axe-core" / "axe.min.js"
POLICY = """
rules:
  - {id: no-wipe, kind: no_call, params: {tool: wipe}, severity: critical, then: block, reason: Nothing is wiped.}
  - {id: ask, kind: no_call, params: {tool: wire}, severity: warning, then: pause, reason: A person looks at wires.}
  - {id: polite, kind: max_turns, params: {n: 2}, severity: info}
"""
HOSTILE = (
    "</bdi></pre><script>window.owned = 1; fetch('http://127.0.0.1:9/')</script>"
    "<img src=http://127.0.0.1:9/x onerror='window.owned = 2'><style>body{display:none}</style>"
    "<div hx-get='/reviews' hx-trigger='load' hx-on:load='window.owned = 3'>{{ 7 * 7 }}\u202e\u2066\u200b"
)


class Guarded:
    """A server with tokens, and what an agent does to it."""

    def __init__(self, url: str, tokens: dict[str, str]) -> None:
        self.url = url
        self.tokens = tokens

    def post(self, path: str, body: Any) -> Any:
        bearer = {"Authorization": f"Bearer {self.tokens['bot']}"}
        return plain_http.post(f"{self.url}{path}", json=body, headers=bearer, timeout=30).json()

    def check(self, tool: str, session: str, call: str, **args: Any) -> Any:
        return self.post(
            "/v1/check", {"session_id": session, "tool": tool, "call_id": call, "event_id": call, "args": args}
        )


@contextmanager
def guarded(folder: Path) -> Iterator[Guarded]:
    (folder / "policy.yaml").write_text(POLICY)
    tokens, entries = {}, []
    for name, role in (("bot", "agent"), ("ada", "reviewer"), ("olga", "operator")):
        tokens[name], digest = make_token()
        entries.append(TokenEntry(name=name, role=role, sha256=digest))  # type: ignore[arg-type]  # a role
    write_tokens(folder / "tokens.jsonl", entries)
    command = ["serve", "--policy", folder / "policy.yaml", "--port", "0", "--history", folder / "history.db"]
    variables = {"STREAM_GUARD_API__TOKENS_FILE": str(folder / "tokens.jsonl")}
    process = processes.start(*command, stderr=subprocess.PIPE, text=True, env=variables)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line
        yield Guarded(found.group(0), tokens)
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("page")) as opened:
        yield opened


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    require(CHROMIUM, "no Chromium is installed (Debian: apt-get install chromium)")
    playwright = import_part("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Seat:
    """Somebody in front of the page: what it shows, logs, and asks the network for."""

    def __init__(self, browser: Any, server: Guarded, name: str) -> None:
        self.server = server
        self.context = browser.new_context(viewport={"width": 1200, "height": 800})
        self.page = self.context.new_page()
        self.page.set_default_timeout(8000)
        self.logged: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.logged.append(message.text))
        self.page.on("pageerror", lambda error: self.logged.append(str(error)))
        self.context.on("request", lambda request: self.asked.append(request.url))
        if name:
            self.go("/")
            self.page.fill("[name=token]", server.tokens[name])
            self.page.click("button[type=submit]")
            self.page.wait_for_selector("nav, body:has-text('agent')")

    def go(self, path: str) -> None:
        self.page.goto(f"{self.server.url}{path}")

    def until_shown(self, path: str, wanted: str) -> None:
        """Look at a page again and again, until it has what is wanted."""
        deadline = time.monotonic() + 20
        while self.page.query_selector(wanted) is None:
            assert time.monotonic() < deadline, f"{path} has no {wanted}"
            self.go(path)

    def elsewhere(self) -> list[str]:
        return [url for url in self.asked if not url.startswith(f"{self.server.url}/")]


@pytest.fixture
def ada(chrome: Any, server: Guarded) -> Iterator[Seat]:
    seat = Seat(chrome, server, "ada")
    yield seat
    seat.context.close()


def test_an_alert_appears_without_a_reload_and_leads_to_its_timeline(ada: Seat, server: Guarded) -> None:
    ada.page.wait_for_selector("#live.on")
    ada.page.evaluate("window.same = 1")
    server.check("wipe", "live-1", "c1", path="/srv")
    row = ada.page.wait_for_selector("#alerts .row.fresh:has-text('wipe')", timeout=5000)
    assert row is not None
    assert ada.page.evaluate("window.same") == 1
    ada.page.keyboard.press("j")
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_url("**/alerts/*")
    ada.page.click("text=Open the session's timeline")
    ada.page.wait_for_selector(".step-tool_call.found")
    assert "Nothing is wiped." in ada.page.inner_text(".step-tool_call.found")
    assert "block" in ada.page.inner_text(".step-decision")
    assert ada.logged == []
    assert ada.elsewhere() == []


def test_a_reviewer_approves_and_the_paused_tool_runs_and_the_requester_cannot(
    chrome: Any, ada: Seat, server: Guarded
) -> None:
    asked = server.check("wire", "pay-1", "w1", to="DE1", amount=5)
    assert asked["action"] == "pause"
    path = f"/reviews/{asked['review']['id']}"
    bot = Seat(chrome, server, "bot")
    bot.go(path)
    assert "agent's" in bot.page.inner_text("body")
    assert bot.page.query_selector("button[value=approve]") is None
    bot.context.close()
    assert server.check("wire", "pay-1", "w1", to="DE1", amount=5)["action"] == "pause"
    ada.go(path)
    assert '"amount": 5' in ada.page.inner_text(".arguments")
    ada.page.fill("[name=note]", "called the customer")
    ada.page.click("button[value=approve]")
    ada.page.wait_for_selector(".state-approved")
    again = server.check("wire", "pay-1", "w1", to="DE1", amount=5)
    assert (again["action"], again["reason"]) == ("allow", "approved by ada: called the customer")


def test_hostile_text_is_inert_on_every_page(ada: Seat, server: Guarded) -> None:
    session = f"h{HOSTILE}"
    ruled = server.check("wipe", session, "h1", **{HOSTILE: HOSTILE})
    waits = server.check("wire", session, "h2", **{HOSTILE: [HOSTILE]})
    said = {"type": "text", "text": HOSTILE}
    events = [
        {"kind": "user_message", "session_id": session, "event_id": "h3", "text": HOSTILE},
        {"kind": "turn", "session_id": session, "event_id": "h4", "response": {"content": [said]}},
    ]
    assert server.post("/v1/events", {"events": events})["accepted"] == 2
    alert = ruled["alerts"][0]["alert_id"]
    ada.go(f"/alerts/{alert}")
    timeline = ada.page.get_attribute("a.button", "href")
    ada.until_shown(str(timeline), ".step-turn")  # the last of what was sent: events are kept a little later
    review = f"/reviews/{waits['review']['id']}"
    lists = ("/", "/reviews", "/incidents", "/activity", "/sessions")
    for path in (f"/alerts/{alert}", timeline, review, *lists):
        ada.go(str(path))
        ada.page.wait_for_timeout(100)
        assert ada.page.evaluate("window.owned") is None, path
        assert ada.page.query_selector("main img, main style, main script, [hx-on\\:load]") is None, path
        assert "\u202e" not in ada.page.content(), path
        assert ada.page.is_visible("main h1"), path
    ada.go(str(timeline))
    assert "U+202E" in ada.page.inner_text(".timeline")
    ada.go("/")
    ada.page.wait_for_selector("#live.on")
    ada.page.mouse.move(5, 5)  # a list under the pointer stands still
    shown = ada.page.locator("#alerts .row").count()
    server.check("wipe", session, "h5", **{HOSTILE: HOSTILE})  # comes in while somebody looks
    ada.page.locator("#alerts .row").nth(shown).wait_for()
    assert ada.page.evaluate("window.owned") is None
    assert ada.page.query_selector("main img, main style, main script, [hx-on\\:load]") is None
    assert "\u202e" not in ada.page.content()
    assert ada.elsewhere() == []
    assert ada.logged == []


def test_the_content_security_policy_holds(ada: Seat) -> None:
    ada.go("/")
    tried = ada.page.evaluate(
        """async () => {
            const script = document.createElement('script');
            script.textContent = 'window.owned = 1';
            document.body.append(script);
            document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.owned = 2">');
            const away = await fetch('http://127.0.0.1:9/').then(() => 'went', () => 'refused');
            await new Promise((done) => setTimeout(done, 200));
            return [window.owned ?? null, away];
        }"""
    )
    assert tried == [None, "refused"]
    assert any("Content Security Policy" in text for text in ada.logged)


@pytest.mark.slow
def test_every_page_is_accessible(ada: Seat, server: Guarded) -> None:
    require(AXE.exists(), "axe-core is not installed (`make setup-tests` installs it)")
    server.check("wipe", "axe-1", "x1", path="/srv")
    review = server.check("wire", "axe-1", "x2", to="a")["review"]["id"]
    ada.until_shown("/sessions/axe-1", ".step-tool_call ~ .step-tool_call")
    ada.go("/incidents")
    incident = ada.page.get_attribute(".row .open", "href")
    ada.go("/")
    alert = ada.page.get_attribute("#alerts .open", "href")
    pages = ["/", "/sessions", "/sessions/axe-1", "/reviews", f"/reviews/{review}", "/incidents", str(incident)]
    pages += ["/rules", "/rules/no-wipe", "/activity", "/policy", "/reports", "/alerts/none", str(alert)]
    found: dict[str, Any] = {}
    for scheme in ("light", "dark"):
        ada.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for path in pages:
            ada.go(path)
            # Through the driver, which the page's policy does not bind.
            ada.page.evaluate(AXE.read_text())
            result = ada.page.evaluate(
                "async () => (await axe.run()).violations"
                ".map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200)).slice(0, 3)])"
            )
            if result:
                found[f"{scheme} {path}"] = result
    assert not found, json.dumps(found, indent=1)[:6000]


def test_keys_the_theme_and_filters(ada: Seat, server: Guarded) -> None:
    server.check("wipe", "key-1", "k1", path="/srv")
    ada.go("/")
    ada.page.wait_for_selector(".row")
    ada.page.keyboard.press("?")
    assert ada.page.is_visible("#keys")
    ada.page.keyboard.press("Escape")
    ada.page.keyboard.press("t")
    assert ada.page.evaluate("document.documentElement.dataset.theme") == "dark"
    ada.page.reload()
    assert ada.page.evaluate("document.documentElement.dataset.theme") == "dark"
    ada.page.keyboard.press("/")
    ada.page.keyboard.type("nothing like this")
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_url("**q=nothing+like+this*")
    assert ada.page.query_selector(".row") is None
    ada.page.keyboard.press("g")
    ada.page.keyboard.press("r")
    ada.page.wait_for_url("**/reviews")


@pytest.mark.slow
def test_an_id_is_copied_with_a_click_and_with_a_key(chrome: Any, server: Guarded) -> None:
    server.check("wipe", "copy-1", "y1")
    seat = Seat(chrome, server, "ada")
    seat.context.grant_permissions(["clipboard-read", "clipboard-write"])
    seat.go("/?session=copy-1")
    seat.page.keyboard.press("j")
    seat.page.keyboard.press("c")
    seat.page.wait_for_selector("#copied:not([hidden])")
    alert = seat.page.evaluate("navigator.clipboard.readText()")
    seat.go(f"/alerts/{alert}")
    seat.page.click("dd:has-text('copy-1') .copy")
    seat.page.wait_for_function("document.getElementById('copied').textContent === 'Copied copy-1'")
    assert seat.page.evaluate("navigator.clipboard.readText()") == "copy-1"
    seat.context.close()


@pytest.mark.slow
def test_a_phone_shows_every_page_without_scrolling_sideways(chrome: Any, server: Guarded) -> None:
    server.check("wipe", "phone-" + "x" * 80, "p1", **{"long" * 30: "word" * 60})
    held = server.check("wire", "phone-" + "x" * 80, "p2", **{"long" * 30: "word" * 60})
    seat = Seat(chrome, server, "ada")
    seat.page.set_viewport_size({"width": 320, "height": 640})
    seat.go("/")
    opened = [seat.page.get_attribute(".row .open", "href")]
    for path in (
        *opened,
        f"/reviews/{held['review']['id']}",
        "/",
        "/sessions",
        "/sessions/phone-" + "x" * 80,
        "/reviews",
        "/incidents",
        "/rules",
        "/activity",
        "/policy",
    ):
        seat.go(path)
        assert seat.page.evaluate("document.documentElement.scrollWidth") <= 320, path
        # Nor does a part of the page have to be pushed aside to see all of it.
        cut = "[...document.querySelectorAll('nav')].filter((one) => one.scrollWidth > one.clientWidth).length"
        assert seat.page.evaluate(cut) == 0, path
    seat.context.close()
