"""Who may open the page, and what happens when a person answers."""

from __future__ import annotations

import re
import time

import pytest

from stream_guard.history import audit, bypasses, chain, verdicts
from stream_guard.judge.model import Action
from tests.page.house import House


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
    told = [record["what"] for record in chain.records(guarded.database)]
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
    assert guarded.post(f"/incidents/{incident}", answer="solve").status_code == 409  # the verdict has solved it
    assert "solved by ada" in guarded.get(f"/incidents/{incident}")
    assert [record["by"] for record in chain.records(guarded.database) if record["what"] == "verdict"] == ["ada", "ada"]


def test_what_a_list_does_not_show_whole_is_not_answered_from_it(guarded: House) -> None:
    for number, args in enumerate(({"to": "a"}, {"to": "a" * 300}, {"to": "b", "password": "hunter2"}), 1):
        guarded.call("wire", agent="bot", args=args, number=number)
    guarded.sign_in("ada")
    page = guarded.get("/reviews")
    assert len(re.findall(r'name="review" value=', page)) == 1
    assert page.count("Not all is shown here") == 2
    assert "hunter2" not in page
