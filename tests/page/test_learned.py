"""Learned rules are accepted and refused on the page, and that is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stream_guard.history import chain, lessons
from stream_guard.history.lessons import KeptLesson
from tests.page.house import House, open_house

HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"


def lesson(number: int = 1, **fields: Any) -> KeptLesson:
    name = f"learned-{number}"
    values: dict[str, Any] = {
        "id": name,
        "words": f"look comes before act {number}",
        "rule": {"id": name, "kind": "no_call", "params": {"tool": "never"}, "mode": "shadow"},
        "support": 40,
        "sessions": 50,
        "broken": 1,
        "broken_in": ("s7",),
        "alarms": 0,
        "judged": 50,
        "at_most": 0.06,
    }
    return KeptLesson(**{**values, **fields})


def test_nothing_was_learned(house: House) -> None:
    assert "Nothing was learned" in house.get("/learned")


def test_a_rule_shows_what_it_rests_on(house: House) -> None:
    lessons.save(house.database, [lesson()])
    page = house.get("/learned")
    for text in ("look comes before act 1", "40 of 50 sessions", "s7", "at most 6.0%", "no verdict on its findings"):
        assert text in page


def test_an_answer_is_remembered_and_in_the_audit(house: House) -> None:
    lessons.save(house.database, [lesson(1), lesson(2), lesson(3)])
    house.call("wipe")
    assert house.post("/learned", rule="learned-1", answer="accept", by="ann", note="yes").status_code == 303
    assert house.post("/learned", rule="learned-2", answer="refuse", by="ann").status_code == 303
    assert [one.state for one in lessons.listing(house.database)] == ["accepted", "refused", "open"]
    assert "accepted by ann" in house.get("/learned")
    kept = lessons.save(house.database, [lesson(2, support=41), lesson(4)])  # the next time, with other sessions
    assert {one.id: one.state for one in kept} == {"learned-2": "refused", "learned-4": "open", "learned-1": "accepted"}
    assert [record["what"] for record in chain.records(house.database)].count("lesson") == 2


def test_an_answer_that_is_none_is_refused(house: House) -> None:
    lessons.save(house.database, [lesson()])
    house.call("wipe")
    assert house.post("/learned", rule="learned-1", answer="maybe", by="ann").status_code == 422
    assert house.post("/learned", rule="other", answer="accept", by="ann").status_code == 404


def test_names_out_of_recordings_are_text(house: House) -> None:
    lessons.save(house.database, [lesson(words=HOSTILE, broken_in=(HOSTILE,), rule={"id": HOSTILE, "kind": HOSTILE})])
    page = house.get("/learned")
    assert "<img" not in page
    assert "\u202e" not in page


def test_what_is_about_all_tenants_takes_a_token_of_none(tmp_path: Path) -> None:
    with open_house(tmp_path, {"tom": {"role": "reviewer", "tenant": "blue"}}) as guarded:
        guarded.sign_in("tom")
        assert guarded.client.get("/learned").status_code == 403
