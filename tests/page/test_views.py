"""The page without a browser: every view over a real history."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from threading import Event as Flag

import pytest

from stream_guard.demo.sessions import LiveSessions, sample_events, spread
from stream_guard.history import alert_rows
from stream_guard.history.alert_rows import AlertFilter
from stream_guard.judge.model import Alert, ToolCall, UserMessage
from stream_guard.worker.rollouts import ListedRollout
from tests.page.house import POLICY, House, open_house

HOSTILE = "<img src=x onerror=alert(1)>\u202e\u200b</script><b hx-get=/x>"


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
    more = LiveSessions(file, 5, stop, pause=0.01)
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
    assert "With the edit: 1 more, 1 fewer" in found
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


def test_rollouts_are_listed_with_who_is_held_back_and_how_far_they_are(tmp_path: Path) -> None:
    one = ListedRollout(
        number=7, time=0.0, version="abc", held="acme: def", switched="g: 6 partitions", by="<b>ann</b>", note="less"
    )
    with open_house(tmp_path, rollouts=lambda: [one]) as house:
        text = house.get("/policy")
    assert all(part in text for part in ("Rollouts", "acme: def", "g: 6 partitions", "policy publish"))
    assert "<b>ann" not in text
