"""The page without a browser: every view over a real history, who may see it, and who may answer."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag

import pytest

from stream_guard.demo.going_on import MoreSessions, spread
from stream_guard.demo.sessions import sample_events
from stream_guard.history import alert_rows, audit, bypasses, kept_events, verdicts
from stream_guard.history.alert_rows import AlertFilter
from stream_guard.model import Action, Alert, ToolCall, Turn, UserMessage
from tests.page.house import POLICY, House, open_house

HOSTILE = "<img src=x onerror=alert(1)>\u202e\u200b</script><b hx-get=/x>"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        yield opened


PEOPLE = {"bot": {"role": "agent"}, "ada": {"role": "reviewer"}, "olga": {"role": "operator"}}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path, PEOPLE) as opened:
        yield opened


@pytest.mark.parametrize(
    "path", ["/", "/sessions", "/reviews", "/incidents", "/rules", "/activity", "/rules/no-wipe", "/policy", "/reports"]
)
def test_every_list_shows_when_there_is_nothing(house: House, path: str) -> None:
    assert "<main" in house.get(path)


def test_every_page_forbids_scripts_that_are_not_its_own(house: House) -> None:
    for path in ("/", "/nothing", "/static/page.js", "/reviews/none"):
        headers = house.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_a_browser_asks_for_scripts_and_styles_once_and_again_when_they_change(house: House) -> None:
    for page in (house.get("/"), house.get("/policy")):
        named = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
        assert len(named) == 6
        for address in named:
            assert "immutable" in house.client.get(address).headers["cache-control"]
    [script] = re.findall(r'src="(/static/page\.js[^"]+)"', page)
    tag = house.client.get(script).headers["etag"]
    again = house.client.get(script, headers={"if-none-match": tag})
    assert again.status_code == 304
    assert "immutable" in again.headers["cache-control"]
    for changed in ("/static/page.js", script[:-1] + "x", f"{script}&x=1"):
        assert house.client.get(changed).headers["cache-control"] == "no-cache"


def test_no_page_has_a_script_or_a_style_in_itself(house: House) -> None:
    house.call("wipe", session=HOSTILE, agent=HOSTILE, args={HOSTILE: HOSTILE})
    house.keep(UserMessage(session_id=HOSTILE, event_id="u", text=HOSTILE, labels={"tenant": HOSTILE}))
    session = alert_rows.session_key(HOSTILE)
    pages = [
        "/", "/sessions", f"/sessions/~{session}", "/incidents?status=all", f"/alerts/{house.an_alert()}", "/activity",
        f"/incidents/{house.database.read('SELECT id FROM sg_incidents')[0][0]}", "/rules/no-wipe",
    ]  # fmt: skip
    for path in pages:
        text = house.get(path)
        assert "<img" not in text, path
        assert "<b hx-get" not in text, path
        assert "\u202e" not in text, path
        assert not re.search(
            r"<script(?![^>]*\bsrc=)|\sstyle=|<style|\son[a-z]+=(?!x)", re.sub("&lt;.*?&gt;", "", text)
        ), path


def test_an_alert_is_listed_opened_and_leads_to_its_session(house: House) -> None:
    house.call("wipe", args={"path": "/srv"}, number=7)
    house.keeper.flush()
    listed = house.get("/")
    found = house.an_alert()
    assert f'href="/alerts/{found}"' in listed
    assert "Nothing is wiped." in house.get(f"/alerts/{found}")
    timeline = house.get("/sessions/s1?event=e7")
    assert "Call <code><bdi>wipe" in timeline
    assert "Decision <span" in timeline
    assert "finding finding-critical" in timeline


def test_filters_stand_in_the_address(house: House) -> None:
    house.call("wipe", session="bad")
    house.call("wire", session="paused")
    assert "bad" in house.get("/?severity=critical")
    assert "/sessions/paused" not in house.get("/?severity=critical")
    assert "/sessions/bad" not in house.get("/?rule=ask")
    assert "/sessions/paused" in house.get("/?q=WIRE")
    assert "/sessions/paused" not in house.get("/?q=nothing+like+it")


def test_pages_of_alerts_leave_none_out_and_show_none_twice(house: House) -> None:
    _many(house, 130)
    seen: list[str] = []
    path: str | None = "/?part=rows"
    while path is not None:
        text = house.get(path)
        seen += re.findall(r'data-number="(\d+)"', text)
        following = re.search(r'hx-get="([^"]+)"', text)
        path = following.group(1).replace("&amp;", "&") if following else None
    assert seen == [str(number) for number in range(130, 0, -1)]


@pytest.mark.parametrize(
    "wanted",
    [
        AlertFilter(),
        AlertFilter(severity="error"),
        AlertFilter(rule="r1"),
        AlertFilter(rule="r1", severity="warning"),
        AlertFilter(agent="a2", text="Number 1"),
        AlertFilter(text="100%"),
        AlertFilter(text="ä"),
        AlertFilter(tenant="t1", agent="a0"),
        AlertFilter(session="s3"),
    ],
    ids=str,
)
def test_a_filter_finds_what_a_look_at_every_alert_finds(house: House, wanted: AlertFilter) -> None:
    _many(house, 230)
    every = alert_rows.since(house.database, 0)
    expected = [noted.number for noted in reversed(every) if wanted.holds(noted)]
    found: list[int] = []
    before = None
    while True:
        page = alert_rows.page(house.database, wanted, before, limit=17)
        found += [noted.number for noted in page.alerts]
        if page.before is None:
            break
        before = page.before
    assert found == expected
    assert expected or wanted.text == "ä"


def _many(house: House, count: int) -> None:
    with house.database.transaction() as statements:
        for number in range(count):
            alert = Alert(
                alert_id=f"x{number}",
                rule_id=f"r{number % 3}",
                kind="k",
                severity=("info", "warning", "error", "critical")[number % 4],
                session_id=f"s{number % 5}",
                event_id="",
                index=None,
                time=None,
                detail=f"number {number} is 100% wrong",
                policy_version="v",
                agent=f"a{number % 7}",
                labels={"tenant": f"t{number % 2}"},
            )
            alert_rows.insert(statements, alert, float(number))


def test_a_paused_call_runs_after_a_person_has_approved_it(guarded: House) -> None:
    ruling = guarded.call("wire", agent="bot", args={"to": "DE1", "amount": 5}, number=1)
    assert ruling.action is Action.PAUSE
    path = f"/reviews/{ruling.review.id}"
    guarded.sign_in("ada")
    page = guarded.get(path)
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', page)
    assert digest is not None
    assert "&#34;amount&#34;: 5" in page
    assert guarded.post(path, answer="approve", digest="0" * 64).status_code == 409
    assert guarded.post(path, answer="approve", digest=digest.group(1)).status_code == 303
    again = guarded.call("wire", agent="bot", args={"to": "DE1", "amount": 5}, number=1)
    assert again.action is Action.ALLOW
    assert "approved by ada" in again.reason


def test_the_token_of_the_agent_that_asked_opens_nothing(guarded: House) -> None:
    ruling = guarded.call("wire", agent="bot", args={}, number=1)
    guarded.sign_in("bot")
    assert guarded.client.get("/").status_code == 403
    answer = guarded.client.post(f"/reviews/{ruling.review.id}", data={"answer": "approve", "csrf": "x"})
    assert answer.status_code == 403
    assert guarded.call("wire", agent="bot", args={}, number=1).action is Action.PAUSE


def test_an_operator_sees_reviews_and_cannot_approve(guarded: House) -> None:
    ruling = guarded.call("wire", agent="bot", args={}, number=1)
    guarded.sign_in("olga")
    assert "reviewer&#39;s token" in guarded.get(f"/reviews/{ruling.review.id}") or "reviewer's token" in guarded.get(
        f"/reviews/{ruling.review.id}"
    )
    mark = guarded.mark()
    answer = guarded.client.post(f"/reviews/{ruling.review.id}", data={"answer": "approve", "csrf": mark})
    assert answer.status_code == 403
    assert guarded.call("wire", agent="bot", args={}, number=1).action is Action.PAUSE


def test_without_a_token_people_are_sent_to_the_form(guarded: House) -> None:
    answer = guarded.client.get("/reviews?status=open", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Freviews%3Fstatus%3Dopen")
    wrong = guarded.client.post("/sign-in", data={"token": "sg_wrong", "next": "/"})
    assert wrong.status_code == 401
    assert not guarded.client.cookies


def test_the_cookie_is_for_this_site_and_not_for_scripts(guarded: House) -> None:
    answer = guarded.client.post(
        "/sign-in", data={"token": guarded.tokens["ada"], "next": "//evil.example/"}, follow_redirects=False
    )
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({}, {}),
        ({}, {"csrf": "0" * 64}),
        ({"origin": "http://evil.example"}, None),
        ({"sec-fetch-site": "cross-site"}, None),
        ({"content-type": "text/plain"}, None),
    ],
)
def test_a_form_of_another_site_changes_nothing(
    house: House, headers: dict[str, str], fields: dict[str, str] | None
) -> None:
    ruling = house.call("wire", args={}, number=1)
    path = f"/reviews/{ruling.review.id}"
    form = {"answer": "approve", "by": "eve", **(fields if fields is not None else {"csrf": house.mark()})}
    assert house.client.post(path, data=form, headers=headers).status_code in (403, 415)
    assert house.call("wire", args={}, number=1).action is Action.PAUSE


def test_a_page_under_another_name_of_this_machine_is_refused(house: House) -> None:
    assert house.client.get("/", headers={"host": "rebound.example"}).status_code == 403


def test_reviews_of_one_shape_are_answered_together(guarded: House) -> None:
    rulings = [guarded.call("wire", agent="bot", args={"to": name}, number=n + 1) for n, name in enumerate("abc")]
    guarded.call("wire", agent="bot", args={"to": 5}, number=9)
    guarded.sign_in("ada")
    page = guarded.get("/reviews")
    assert page.count('class="card group"') == 2
    chosen = re.findall(r'name="review" value="([^"]+)"', page)
    mine = [entry for entry in chosen if entry.partition(":")[0] in {ruling.review.id for ruling in rulings}]
    assert guarded.post("/reviews", answer="approve", review=mine).status_code == 303
    for number, name in enumerate("abc"):
        assert guarded.call("wire", agent="bot", args={"to": name}, number=number + 1).action is Action.ALLOW
    assert guarded.call("wire", agent="bot", args={"to": 5}, number=9).action is Action.PAUSE


def test_a_bypass_lets_its_shape_through_for_a_while_and_nothing_else(guarded: House) -> None:
    ruling = guarded.call("wire", agent="bot", args={"to": "a"}, number=1)
    guarded.sign_in("ada")
    form = {"review": ruling.review.id, "minutes": "5", "note": "moving banks"}
    assert guarded.post("/reviews/bypass", **{**form, "note": ""}).status_code == 422
    assert guarded.post("/reviews/bypass", **{**form, "minutes": "100000"}).status_code == 422
    assert guarded.post("/reviews/bypass", **form).status_code == 303
    used = guarded.call("wire", agent="bot", args={"to": "b"}, number=2)
    assert (used.action, used.review.via) == (Action.ALLOW, "bypass")
    assert guarded.call("wire", agent="bot", args={"to": ["b"]}, number=3).action is Action.PAUSE
    assert guarded.call("wire", agent="bot", args={"to": "b", "all": True}, number=4).action is Action.PAUSE
    assert guarded.call("wire", agent="other", args={"to": "b"}, number=5).action is Action.PAUSE
    assert guarded.call("wipe", agent="bot", args={"to": "b"}, number=6).action is Action.BLOCK
    told = [record["what"] for record in audit.records(guarded.database)]
    assert "bypass_opened" in told
    [bypass] = bypasses.active(guarded.database, time.time())
    assert guarded.post(f"/reviews/bypass/{bypass.id}/end").status_code == 303
    assert guarded.call("wire", agent="bot", args={"to": "c"}, number=7).action is Action.PAUSE
    assert audit.verify(guarded.database).problems == ()


def test_a_bypass_that_was_written_into_the_database_lets_nothing_through(guarded: House) -> None:
    ruling = guarded.call("wire", agent="bot", args={"to": "a"}, number=1)
    grant = bypasses.Grant(by="ada", note="x", seconds=60)
    guarded.gate.reviews.bypass(ruling.review.id, grant)
    with guarded.database.transaction() as statements:
        statements.run("UPDATE sg_bypasses SET expires = expires + 100000")
    assert guarded.call("wire", agent="bot", args={"to": "b"}, number=2).action is Action.PAUSE
    assert any("bypass" in problem for problem in audit.verify(guarded.database).problems)


def test_a_verdict_counts_for_its_rule_and_is_in_the_audit(guarded: House) -> None:
    guarded.call("wipe", agent="bot", number=1)
    found = guarded.an_alert()
    guarded.sign_in("ada")
    assert guarded.post(f"/alerts/{found}", answer="wrong", note="a test").status_code == 303
    assert guarded.post(f"/alerts/{found}", answer="splendid").status_code == 422
    counts = verdicts.counts(guarded.database)["no-wipe"]
    assert (counts.wrong, counts.false_share) == (1, 1.0)
    assert "0 right, 1 wrong, 0 benign" in guarded.get("/rules")
    [incident] = [row[0] for row in guarded.database.read("SELECT id FROM sg_incidents")]
    assert guarded.post(f"/incidents/{incident}", answer="right").status_code == 303
    assert verdicts.counts(guarded.database)["no-wipe"].right == 1
    assert guarded.post(f"/incidents/{incident}", answer="solve").status_code == 303
    assert "solved by ada" in guarded.get(f"/incidents/{incident}")
    assert [record["by"] for record in audit.records(guarded.database) if record["what"] == "verdict"] == ["ada", "ada"]


def test_one_tenant_sees_nothing_of_another(tmp_path: Path) -> None:
    people = {"ada": {"role": "reviewer", "tenant": "north"}, "bob": {"role": "reviewer", "tenant": "south"}}
    with open_house(tmp_path, people) as house:
        house.call("wipe", session="north/s", labels={"tenant": "north"}, number=1)
        ruling = house.call("wire", session="north/s", labels={"tenant": "north"}, args={}, number=2)
        house.keeper.flush()
        [(incident,)] = house.database.read("SELECT id FROM sg_incidents LIMIT 1")
        paths = {
            f"/alerts/{house.an_alert()}": 404,
            "/sessions/north/s": 404,
            f"/incidents/{incident}": 404,
            f"/reviews/{ruling.review.id}": 404,
        }
        house.sign_in("bob")
        for path, status in paths.items():
            assert house.client.get(path).status_code == status, path
        for path in ("/?tenant=north", "/sessions", "/reviews", "/incidents", "/activity"):
            assert "north/s" not in house.get(path), path
        house.sign_in("ada")
        for path in paths:
            assert house.client.get(path).status_code == 200, path


def test_a_long_session_comes_in_parts(house: House) -> None:
    house.keep(*(ToolCall(session_id="long", tool="read", event_id=f"e{n}", time=1e9 + n) for n in range(250)))
    seen: list[str] = []
    path: str | None = "/sessions/long?part=events"
    while path:
        text = house.get(path)
        seen += re.findall(r'id="e(\d+)"', text)
        following = re.search(r'hx-get="([^"]+)"', text)
        path = following.group(1).replace("&amp;", "&") if following else None
    assert seen == [str(number) for number in range(1, 251)]


def test_only_so_many_sessions_and_events_are_kept(tmp_path: Path) -> None:
    with open_house(tmp_path, page={"sessions": 3, "session_events": 5}) as house:
        for number in range(6):
            house.keep(*(ToolCall(session_id=f"s{number}", tool="read", event_id=f"e{n}") for n in range(9)))
        assert [session.id for _, session in kept_events.sessions(house.database)] == ["s5", "s4", "s3"]
        assert [event.number for event in kept_events.events_of(house.database, "s5")] == [5, 6, 7, 8, 9]
        assert kept_events.events_of(house.database, "s0") == []
        assert "The first 4 events of this session are not kept any more." in house.get("/sessions/s5")


def test_secrets_are_not_kept_and_events_that_are_told_again_are_kept_once(house: House) -> None:
    secret = "sk-ant-" + "a1B2" * 10
    call = ToolCall(session_id="s", tool="post", event_id="e", args={"header": secret, "password": "hunter2"})
    turn = Turn(session_id="s", event_id="t", response={"content": [{"type": "text", "text": f"the key is {secret}"}]})
    house.keep(call, turn, call)
    kept = house.database.read("SELECT body FROM sg_events")
    assert len(kept) == 2
    assert secret not in str(kept)
    assert "hunter2" not in str(kept)


def test_states_are_told_where_an_event_changes_them(house: House) -> None:
    tools = ("read", "look", "read", "read")
    house.keep(
        *(ToolCall(session_id="s", tool=tool, event_id=f"e{n}", time=1e9 + n) for n, tool in enumerate(tools, 1))
    )
    told = re.sub(r"<[^>]+>", "", house.get("/sessions/s"))
    for before, after in (("nothing yet", "calls 1"), ("calls 1", "calls 2"), ("calls 2", "calls 3")):
        assert f"few-readsbefore: {before}→after: {after}" in told
    assert told.count("1 rule moved") == 3
    assert "No rule" in house.get("/sessions/s?states=2")
    assert "No rule" in house.get("/sessions/s?states=99")
    assert "<ins><bdi>calls 3" in house.get("/sessions/s?states=4")


def test_states_of_a_long_session_are_told_when_asked_for_and_without_being_asked_once_known(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_guard.page.states._AT_ONCE", 100)
    house.keep(*(ToolCall(session_id="s", tool="read", event_id=f"e{n}", time=1e9 + n) for n in range(1, 451)))
    assert "What rules remember" in house.get("/sessions/s?after=300")
    assert "<del><bdi>calls 399</bdi></del>" in house.get("/sessions/s?states=400")
    assert "<ins><bdi>calls 399" in house.get("/sessions/s?after=390")
    house.keep(*(ToolCall(session_id="s", tool="read", event_id=f"e{n}", time=1e9 + n) for n in range(451, 471)))
    assert "<ins><bdi>calls 470" in house.get("/sessions/s?after=450")


def test_every_finding_of_a_session_stands_at_its_event_however_many_there_are(house: House) -> None:
    for number in range(1, 151):
        house.call("wipe", session="s", number=number)
    house.keeper.flush()
    assert "150 findings" in house.get("/sessions/s")
    found = [
        len(re.findall('class="finding ', house.get(f"/sessions/s?after={after}&part=events")))
        for after in range(0, 300, 60)
    ]
    assert sum(found) == 150
    assert found[-1] > 10
    assert "1,000" not in house.get("/sessions")


def test_what_led_to_it_is_shown_beside_alerts_reviews_and_incidents(house: House) -> None:
    house.keep(UserMessage(session_id="s", event_id="u", text="please wire it, said the page", time=1e9))
    ruling = house.call("wire", session="s", args={"to": "DE1"}, number=1)
    house.keeper.flush()
    [incident] = [row[0] for row in house.database.read("SELECT id FROM sg_incidents")]
    for path in (f"/alerts/{house.an_alert()}", f"/reviews/{ruling.review.id}", f"/incidents/{incident}"):
        assert "please wire it, said the page" in house.get(path), path


def test_a_list_goes_on_by_itself_only_so_far(house: House) -> None:
    _many(house, 700)
    path: str | None = "/?part=rows"
    rows, text = 0, ""
    while path is not None:
        text = house.get(path)
        rows += text.count('data-number="')
        following = re.search(r'hx-get="([^"]+)"', text)
        path = following.group(1).replace("&amp;", "&") if following else None
    assert rows == 500
    older = re.search(r'<a href="(/\?before=[^"]+)">Older', text)
    assert older is not None
    assert 'data-number="200"' in house.get(older.group(1))


def test_the_demo_goes_on_while_it_stays(tmp_path: Path) -> None:
    stop = Flag()
    file = tmp_path / "events.jsonl"
    file.touch()
    more = MoreSessions(file, 5, stop, pause=0.01)
    deadline = time.monotonic() + 20
    while file.read_text().count("session_end") < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    stop.set()
    more.close()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert events[0]["session_id"].endswith("-00005")
    assert len({event["session_id"] for event in events}) >= 2
    assert all(abs(time.time() - event["time"]) < 300 for event in events)


def test_sample_sessions_are_spread_over_the_last_hours_in_order() -> None:
    now = 1_800_000_000.0
    told = spread(sample_events(12), now)
    times = [event["time"] for event in told]
    assert times == sorted(times)
    assert now - 24 * 3600 < times[0] < now - 10 * 3600
    assert times[-1] <= now


def test_an_edit_of_the_policy_is_linted_and_tried_before_it_goes_live(house: House) -> None:
    house.keep(*(ToolCall(session_id="s1", tool=tool, event_id=tool, time=time.time()) for tool in ("wipe", "read")))
    assert "no-wipe" in house.get("/policy")
    text = "rules: [{id: no-read, kind: no_call, params: {tool: read}}, {id: ask, kind: no_such_kind}]"
    found = house.client.post("/policy", data={"csrf": house.policy_mark(), "text": text, "hours": "24"}).text
    assert "to mend" in found
    assert "no_such_kind" in found
    text = "rules: [{id: no-read, kind: no_call, params: {tool: read}}]"
    found = house.client.post("/policy", data={"csrf": house.policy_mark(), "text": text, "hours": "24"}).text
    assert "The edit changes 2 alerts" in found
    assert "1 added" in found
    assert "1 removed" in found
    assert (house.folder / "policy.yaml").read_text() == POLICY


def test_a_rule_has_an_exception_proposed_and_proved(house: House) -> None:
    for number, to in enumerate(("petty", "petty", "other")):
        house.call("wipe", session=f"s{number}", args={"to": to}, number=number + 1)
    house.keeper.flush()
    for noted in alert_rows.since(house.database, 0):
        word = "right" if noted.alert.session_id == "s2" else "wrong"
        assert house.post(f"/alerts/{noted.alert.alert_id}", answer=word, by="ada").status_code == 303
    found = house.get("/rules/no-wipe?exception=1")
    assert "tool.args.to" in found
    assert "all 1 findings marked right still fire; 2 of 2 marked wrong do not" in found


def test_reports_of_a_folder_are_shown_shut_in_and_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "diff.html").write_text("<h1>diff</h1><script>alert(1)</script>")
    (folder / ".hidden.html").write_text("x")
    (tmp_path / "secret.html").write_text("secret")
    (folder / "link.html").symlink_to(tmp_path / "secret.html")
    with open_house(tmp_path, page={"reports": folder}) as house:
        listed = house.get("/reports")
        assert "diff.html" in listed
        assert ".hidden" not in listed
        assert "link.html" not in listed
        assert "sandbox" in house.get("/reports/diff.html")
        answer = house.client.get("/reports/diff.html/content")
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        for name in ("link.html", ".hidden.html", "..%2Fsecret.html", "%2e%2e"):
            assert house.client.get(f"/reports/{name}/content").status_code in (404, 405), name


def test_what_a_list_does_not_show_whole_is_not_answered_from_it(guarded: House) -> None:
    for number, args in enumerate(({"to": "a"}, {"to": "a" * 300}, {"to": "b", "password": "hunter2"}), 1):
        guarded.call("wire", agent="bot", args=args, number=number)
    guarded.sign_in("ada")
    page = guarded.get("/reviews")
    assert len(re.findall(r'name="review" value=', page)) == 1
    assert page.count("Not all is shown here") == 2
    assert "hunter2" not in page


def test_numbers_of_rules_are_those_of_ones_own_tenant(tmp_path: Path) -> None:
    people = {"bob": {"role": "operator", "tenant": "south"}, "olga": {"role": "operator"}}
    with open_house(tmp_path, people) as house:
        house.call("wipe", session="north/s", labels={"tenant": "north"}, number=1)
        house.sign_in("olga")
        assert house.get("/rules").count(">never<") == 3
        house.sign_in("bob")
        assert house.get("/rules").count(">never<") == 4
        for path in ("/policy", "/reports"):
            assert house.client.get(path).status_code == 403, path
