"""A session on the page: its events, its findings, and what rules remembered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stream_guard.history import kept_events
from stream_guard.judge.model import ToolCall, Turn, UserMessage
from tests.page.house import House, open_house


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
    monkeypatch.setattr("stream_guard.page.sessions_view._AT_ONCE", 100)
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
