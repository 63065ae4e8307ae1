"""The page shows what a judge was asked, what it said and cost, and what people say of the same."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.history import alert_rows, inquiries, verdicts
from stream_guard.history.inquiries import AskedInquiry
from stream_guard.testing import alert
from tests.page.house import House, open_house

HOSTILE = "<img src=x onerror=alert(1)>\u202e</script><b hx-get=/x>"


def asked(house: House, number: int = 1, **fields: Any) -> AskedInquiry:
    """Keep an inquiry, answered unless the fields say otherwise."""
    values: dict[str, Any] = {
        "id": f"{number:032x}",
        "rule_id": "reasons",
        "model": "judge-1",
        "words": "A refund needs a reason.",
        "excerpt": (json.dumps({"event": "tool_call", "tool": "refund", "args": {"amount": 9}, "asked": True}),),
        "opened": 1000.0 + number,
        "state": "answered",
        "violated": True,
        "confidence": 0.9,
        "explanation": "no reason was given",
        "tokens": 240,
        "cost_usd": 0.0012,
    }
    inquiry = AskedInquiry(**{**values, **fields})
    with house.database.transaction() as statements:
        inquiries.put(statements, inquiry, 0.0)
    return inquiry


def told(house: House, inquiry: AskedInquiry, number: int) -> sg.Alert:
    """Note an alert that rests on an inquiry."""
    found = alert(number, rule_id=inquiry.rule_id, evidence={"judge": {"says": "broken", "inquiry": inquiry.id}})
    with house.database.transaction() as statements:
        alert_rows.insert(statements, found, 2000.0)
    return found


def test_nothing_was_asked(house: House) -> None:
    assert "Nothing was asked" in house.get("/judge")


def test_a_rule_shows_what_it_cost_and_whether_people_agree(house: House) -> None:
    first, second = asked(house, 1), asked(house, 2)
    asked(house, 3, violated=False)
    asked(house, 4, state="refused", violated=None, explanation="the budget of rule reasons is used up", cost_usd=0.0)
    for number, (inquiry, word) in enumerate(((first, "right"), (second, "wrong"))):
        verdicts.give(house.database, told(house, inquiry, number).alert_id, word, by="ann", time=1.0)  # type: ignore[arg-type]
    page = re.sub(r"<[^>]+>", " ", house.get("/judge"))
    assert re.search(r"reasons\s+4\s+2\s+1\s+1\s+\$0\.0036\s+\$0\.0018\s+1 agree,\s+1 disagree", page)
    assert "no budget" in page


def test_one_question_shows_all_that_the_judge_was_shown(house: House) -> None:
    inquiry = asked(house)
    found = told(house, inquiry, 0)
    verdicts.give(house.database, found.alert_id, "benign", by="ann", time=1.0)
    page = house.get(f"/judge/{inquiry.id}")
    for text in (
        "A refund needs a reason.",
        "no reason was given",
        "judge-1",
        "$0.0012",
        "amount",
        "against the judge",
    ):
        assert text in page
    assert f'href="/judge/{inquiry.id}"' in house.get(f"/alerts/{found.alert_id}")


def test_text_of_agents_and_judges_is_text(house: House) -> None:
    line = json.dumps({"event": HOSTILE, "text": HOSTILE, HOSTILE: HOSTILE})
    inquiry = asked(house, words=HOSTILE, explanation=HOSTILE, model=HOSTILE, excerpt=(line,), tenant=HOSTILE)
    for path in ("/judge", f"/judge/{inquiry.id}", "/judge?rule=<img>"):
        page = house.get(path)
        assert "<img" not in page
        assert "<b hx-get" not in page
        assert "\u202e" not in page


def test_a_question_that_was_never_asked_is_not_there(house: House) -> None:
    assert house.client.get("/judge/none").status_code == 404


@pytest.mark.parametrize(("person", "status"), [("tom", 404), ("ada", 200)])
def test_a_tenant_sees_its_own_questions(tmp_path: Any, person: str, status: int) -> None:
    people = {"ada": {"role": "reviewer"}, "tom": {"role": "reviewer", "tenant": "blue"}}
    with open_house(tmp_path, people) as guarded:
        other, own = asked(guarded, 1, tenant="red"), asked(guarded, 2, tenant="blue")
        guarded.sign_in(person)
        assert guarded.client.get(f"/judge/{other.id}").status_code == status
        assert guarded.client.get(f"/judge/{own.id}").status_code == 200
        assert (other.id in guarded.get("/judge")) is (status == 200)
