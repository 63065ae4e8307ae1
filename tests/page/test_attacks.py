"""Attacks on the page: from other sites, from other tenants, by addresses, by filters, and by many watchers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.routing import Mount, Route

from stream_guard.history import bypasses, verdicts
from stream_guard.judge.model import ToolCall, ToolResult, UserMessage
from stream_guard.page import live
from stream_guard.page.live import as_event
from tests.page.house import House, open_house

SECRET = "northernmost"  # stands in everything that belongs to the tenant north
PEOPLE = {
    "ada": {"role": "reviewer", "tenant": "north"},
    "bob": {"role": "reviewer", "tenant": "south"},
    "olga": {"role": "operator", "tenant": "south"},
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        yield opened


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[House]:
    """A house of two tenants, in which only one of them does something."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / f"diff-{SECRET}.html").write_text(SECRET)
    with open_house(tmp_path, PEOPLE, page={"reports": tmp_path / "reports"}) as opened:
        labels = {"tenant": "north"}
        session, agent = f"north/{SECRET}", f"agent-{SECRET}"
        opened.keep(
            UserMessage(session_id=session, event_id=f"u-{SECRET}", text=SECRET, labels=labels, time=time.time()),
            ToolCall(session_id=session, event_id="c", tool=f"tool-{SECRET}", agent=agent, labels=labels),
            ToolResult(session_id=session, event_id="r", tool=f"tool-{SECRET}", status="error", labels=labels),
        )
        for number in (1, 2):
            opened.call("wipe", session=session, agent=agent, args={SECRET: SECRET}, labels=labels, number=number)
        ruling = opened.call("wire", session=session, agent=agent, args={"to": SECRET}, labels=labels, number=3)
        opened.call("wire", session=session, agent=agent, args={"to": SECRET, "x": 1}, labels=labels, number=4)
        grant = bypasses.Grant(by=f"ada-{SECRET}", note=SECRET, seconds=600, tenant="north")
        opened.gate.reviews.bypass(ruling.review.id, grant)
        said: dict[str, Any] = {"by": f"ada-{SECRET}", "note": SECRET, "time": time.time()}
        verdicts.give(opened.database, opened.an_alert(), "wrong", **said)
        opened.keeper.flush()
        yield opened


def values(house: House) -> dict[str, list[str]]:
    """Return what stands for each part of an address."""
    read = house.database.read
    tables = ("alerts", "reviews", "incidents", "bypasses")
    found = [row[0] for table in tables for row in read(f"SELECT id FROM sg_{table}")]
    keys = [f"~{row[0]}" for row in read("SELECT session FROM sg_sessions")]
    return {"id": [*found, *keys, f"north/{SECRET}", "no-wipe", "ask"], "name": [f"diff-{SECRET}.html"]}


def addresses(house: House) -> Iterator[tuple[str, str]]:
    """Yield every method and address that the page has, with everything that could stand in it."""
    known = values(house)
    routes = [route for route in house.client.app.routes if not isinstance(route, Mount)]  # type: ignore[attr-defined]
    assert len(routes) >= 20
    for route in routes:
        assert isinstance(route, Route)
        if route.path == "/alerts/stream":
            continue  # it does not end; it has tests of its own
        slot = re.search(r"\{(\w+)(?::path)?\}", route.path)
        paths = [route.path.replace(slot.group(0), value) for value in known[slot.group(1)]] if slot else [route.path]
        for path in paths:
            yield from ((method, path) for method in sorted(route.methods or ()) if method != "HEAD")


def told_by_people(house: House) -> list[Any]:
    """Return everything that people can change."""
    return [
        house.database.read(f"SELECT * FROM sg_{table}") for table in ("reviews", "incidents", "verdicts", "bypasses")
    ]


@pytest.mark.parametrize("name", ["bob", pytest.param("olga", marks=pytest.mark.long)])
def test_no_address_shows_or_changes_anything_of_another_tenant(shared: House, name: str) -> None:
    before = told_by_people(shared)
    shared.sign_in(name)
    mark = re.search(r'name="csrf" value="([0-9a-f]+)"', shared.client.get("/").text)
    assert mark is not None
    of_lists = ["", "?tenant=north", f"?session=north/{SECRET}", f"?agent=agent-{SECRET}", "?part=rows&tenant=north"]
    of_lists += ["?status=all", "?status=approved", "?span=30d", "?q=north"]
    of_one = ["", "?states=1", "?part=events", "?exception=1", "?event=c&at=1"]
    answers = ("approve", "reject", "acknowledge", "solve", "right", "wrong", "benign")
    asked = f"(north(/|%2F)|agent-|diff-){SECRET}"  # what they ask for themselves may be shown to them
    tried = 0
    for method, path in addresses(shared):
        if path in ("/sign-in", "/sign-out"):
            continue
        if method == "GET":
            queries = of_lists if path.count("/") == 1 else of_one
            texts = [shared.client.get(path + query).text for query in queries]
        else:
            digests = [row[0] for row in shared.database.read("SELECT id FROM sg_reviews")]
            common = {"csrf": mark.group(1), "note": "x", "minutes": "5", "text": "rules: []", "hours": "24"}
            texts = [
                shared.client.post(path, data={**common, "answer": answer, "review": digests[-1]}).text
                for answer in answers
            ]
        tried += len(texts)
        for text in texts:
            assert SECRET not in re.sub(asked, "", text), (method, path)
    assert told_by_people(shared) == before
    assert tried > 200


def test_what_belongs_to_another_tenant_is_answered_as_what_is_not_there(shared: House) -> None:
    shared.sign_in("bob")
    mark = re.search(r'name="csrf" value="([0-9a-f]+)"', shared.client.get("/").text)
    assert mark is not None
    form = {"csrf": mark.group(1), "note": "x", "minutes": "5"}
    told: dict[tuple[str, str], set[int]] = {}

    @cache
    def answers(method: str, pattern: str, value: str) -> list[tuple[int, str]]:
        path = re.sub(r"\{\w+(?::path)?\}", value, pattern)
        tried = [form | {"answer": answer} for answer in ("approve", "solve", "wrong")] if method == "POST" else [None]
        found = [shared.client.request(method, path, data=data) for data in tried]
        told.setdefault((method, pattern), set()).update(one.status_code for one in found)
        return [(one.status_code, one.text.replace(value, "")) for one in found]

    tables = ("alerts", "reviews", "incidents", "bypasses")
    ids = [shared.database.read(f"SELECT min(id) FROM sg_{table}")[0][0] for table in tables]
    ids += [value for value in values(shared)["id"] if value[0] == "~" or SECRET in value]
    for route in shared.client.app.routes:  # type: ignore[attr-defined]
        if isinstance(route, Mount) or "{" not in route.path or route.path.startswith("/rules/"):
            continue  # rules are everybody's
        for method in sorted((route.methods or set()) - {"HEAD"}):
            for value in [*ids, *values(shared)["name"]]:
                absent = re.sub(rf"{SECRET}|[0-9a-f]{{8,}}", "0123456789abcdef", value)
                assert absent != value
                assert answers(method, route.path, value) == answers(method, route.path, absent), (method, value)
    assert len(told) >= 8
    for asked, statuses in told.items():
        assert statuses <= {403, 404, 422}, asked
        assert statuses & {403, 404}, asked


def test_the_owner_sees_what_others_do_not(shared: House) -> None:
    shared.sign_in("ada")
    for path in ("/", "/sessions", "/reviews", "/incidents", "/activity", f"/sessions/north/{SECRET}"):
        assert SECRET in shared.get(path), path


class Listener:
    """Reads server-sent events from the application itself, as a server would."""

    def __init__(self, house: House, query: str) -> None:
        cookie = "; ".join(f"{name}={value}" for name, value in house.client.cookies.items())
        headers = [(b"host", b"127.0.0.1:8750"), (b"cookie", cookie.encode())]
        self._app: Any = house.client.app
        self._scope = {"type": "http", "method": "GET", "path": "/alerts/stream", "raw_path": b"/alerts/stream"}
        self._scope |= {"query_string": query.encode(), "headers": headers, "http_version": "1.1", "root_path": ""}
        self._scope |= {"scheme": "http", "server": ("127.0.0.1", 8750), "client": ("127.0.0.1", 1)}
        self.heard = b""
        self.status = 0
        self.came = asyncio.Event()

    async def run(self) -> None:
        """Listen until the stream ends."""
        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if asked:
                await asyncio.Event().wait()
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            self.status = message.get("status", self.status)
            self.heard += message.get("body", b"")
            if self.status != 200 or b"data-number" in self.heard:
                self.came.set()

        await self._app(self._scope, receive, send)


def test_the_stream_of_one_tenant_tells_nothing_of_another(shared: House) -> None:
    async def listen() -> tuple[bytes, bytes]:
        listeners = []
        for name in ("ada", "bob"):
            shared.sign_in(name)
            listeners.append(Listener(shared, "after=0&tenant=north"))
        tasks = [asyncio.create_task(listener.run()) for listener in listeners]
        await listeners[0].came.wait()
        shared.call("wipe", session="south/s", labels={"tenant": "south"}, number=9)
        await listeners[1].came.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return listeners[0].heard, listeners[1].heard

    ours, theirs = asyncio.run(listen())
    assert SECRET.encode() in ours
    assert b"south/s" in theirs
    assert SECRET.encode() not in theirs


def test_a_stream_ends_when_its_token_is_taken_back(shared: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_QUIET", 0.0)

    async def listen() -> None:
        shared.sign_in("ada")
        listener = Listener(shared, "after=0")
        task = asyncio.create_task(listener.run())
        await listener.came.wait()
        (shared.folder / "tokens.jsonl").write_text("")
        await task

    asyncio.run(listen())


def test_more_watchers_than_there_is_room_for_are_refused_and_others_are_served(
    shared: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_EACH", 4)

    async def listen() -> tuple[list[int], int]:
        shared.sign_in("ada")
        listeners = [Listener(shared, "after=0") for _ in range(300)]
        tasks = [asyncio.create_task(listener.run()) for listener in listeners]
        for refused in islice(asyncio.as_completed(tasks), 296):
            await refused
        shared.sign_in("bob")
        listeners.append(Listener(shared, "after=0"))
        tasks.append(asyncio.create_task(listeners[-1].run()))
        shared.call("wipe", session="south/s", labels={"tenant": "south"}, number=9)
        await listeners[-1].came.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [listener.heard.count(b"event: alerts") for listener in listeners], listeners[-1].status

    heard, status = asyncio.run(listen())
    assert sum(map(bool, heard[:-1])) <= 4
    assert (heard[-1], status) == (1, 200)


@pytest.mark.parametrize(
    "text",
    ["a\n\ndata: x", "a\rb", "a\r\n\r\nevent: alerts", "a\u2028b\u2029c\x85d\x0be\x0cf", "id: 7\nretry: 1", "\0"],
)
def test_a_text_cannot_end_its_server_sent_event(text: str) -> None:
    sent = as_event("alerts", f"<p>{text}</p>", 5).decode()
    assert sent.endswith("\n\n")
    fields = [line.partition(": ")[0] for line in re.split("\r\n|\r|\n", sent[:-2])]
    assert fields == ["event", "id", *["data"] * (len(fields) - 2)]


@pytest.mark.parametrize("path", ["//evil.example/", "//evil.example/..", "/\\evil.example", "//evil.example?a=b"])
def test_nobody_is_sent_to_another_site(shared: House, path: str) -> None:
    for headers in ({}, {"sec-fetch-site": "cross-site"}):
        answer = shared.client.get(f"http://127.0.0.1:8750{path}", headers=headers, follow_redirects=False)
        wanted = re.findall(r'url=([^"]*)', answer.text) or [unquote(answer.headers["location"].partition("next=")[2])]
        assert len(wanted) == 1
        assert re.match(r"/(?![/\\])", wanted[0])


@pytest.mark.parametrize("name", ["token", "access_token", "authorization", "sg_token"])
def test_a_token_in_an_address_opens_nothing(shared: House, name: str) -> None:
    answer = shared.client.get(f"/?{name}={shared.tokens['ada']}", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize(
    "path",
    [
        "/?q=" + "x" * 50_000,
        "/?q=" + "%25_" * 60,
        "/?rule=" + "%F0%9F%92%A9" * 3_000,
        "/?session=" + "%00" * 2_000,
        "/?tenant=%ED%A0%80&agent=%FF",
        "/?before=" + "9" * 400,
        "/?before=999999999999999999",
        "/?before=-1&loaded=-5",
        "/?severity=constructor",
        "/?part=rows&loaded=99999999999999999",
        "/sessions?before=99999999999999999",
        "/sessions/" + "x" * 20_000,
        "/sessions/~" + "0" * 5_000,
        "/sessions/%00%0d%0aset-cookie:x",
        "/sessions/s1?after=99999999999999999&at=99999999999999999&states=99999999999999999",
        "/sessions/s1?part=events&after=0&loaded=99999999999999999",
        "/alerts/" + "%2e%2e%2f" * 500,
        "/incidents?before=nan~a",
        "/incidents?before=inf~a&status=none",
        "/incidents?before=1e999~x",
        "/reviews?status=" + "x" * 9_000,
        "/rules/" + "a/" * 2_000,
        "/rules?span=" + "9" * 1_000,
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2f..%2fsettings/__init__.py",
        "/reports/..%2f..%2fpolicy.yaml/content",
        "/reports/%2fetc%2fpasswd/content",
        "/reports/.%2e/content",
    ],
)
def test_no_address_breaks_the_page(house: House, path: str) -> None:
    house.call("wipe", number=1)
    house.keeper.flush()
    answer = house.client.get(path)
    assert answer.status_code in (200, 400, 404, 405), answer.text[:500]
    assert "set-cookie" not in answer.headers
    assert "make_page" not in answer.text
    assert "root:" not in answer.text
