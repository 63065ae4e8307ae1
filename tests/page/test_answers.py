"""One finding is one thing to do: what answers it closes what else asks about it. And its id is at hand."""

from __future__ import annotations

from stream_guard.guard.reviews import Reviews
from stream_guard.history import alert_rows, audit, incidents
from tests.page.house import House


def test_a_verdict_on_the_last_finding_solves_its_incident(house: House) -> None:
    house.call("wipe", number=1)
    house.call("wipe", number=2)
    first, second = (noted.alert.alert_id for noted in alert_rows.since(house.database, 0))
    house.post(f"/alerts/{first}", answer="right", by="ada")
    assert "unresolved" in house.get(f"/alerts/{first}")
    house.post(f"/alerts/{second}", answer="wrong", by="ada")
    [incident] = incidents.listing(house.database)
    assert (incident.status, incident.solved_by, incident.note) == ("solved", "ada", "wrong")
    assert "solved" in house.get(f"/alerts/{first}")
    house.call("wipe", number=3)
    assert incidents.listing(house.database)[0].status == "unresolved"


def test_an_answer_to_a_review_solves_the_incident_when_no_other_one_waits(house: House) -> None:
    reviews = [house.call("wire", number=number, args={"to": number}).review for number in (1, 2)]
    [incident] = incidents.listing(house.database)
    assert house.get(f"/incidents/{incident.id}").count("Open review") == 2
    assert incident.id in house.get(f"/reviews/{reviews[0].id}")
    house.post(f"/reviews/{reviews[0].id}", answer="reject", by="ada")
    assert incidents.listing(house.database)[0].status == "unresolved"
    form = {"answer": "approve", "by": "ada", "digest": reviews[1].arguments_digest}
    house.post(f"/reviews/{reviews[1].id}", **form)
    solved = incidents.listing(house.database)[0]
    assert (solved.status, solved.solved_by, solved.note) == ("solved", "ada", f"review {reviews[1].id} approved")


def test_an_attempt_that_asks_again_after_its_answer_is_no_new_thing_to_do(house: House) -> None:
    asked = house.call("wire", number=1, args={"to": "a"}).review
    house.post(f"/reviews/{asked.id}", answer="approve", by="ada", digest=asked.arguments_digest)
    assert house.call("wire", number=2, args={"to": "a"}).action.word == "allow"
    [incident] = incidents.listing(house.database)
    assert (incident.findings, incident.status) == (2, "solved")
    assert house.call("wire", number=3, args={"to": "a"}).review.status == "open"
    assert incidents.listing(house.database)[0].status == "unresolved"


def test_solving_an_incident_acknowledges_what_asks_whether_it_was_seen(house: House) -> None:
    house.call("wipe", number=1)
    [incident] = incidents.listing(house.database)
    [noted] = alert_rows.since(house.database, 0)
    reviews = Reviews(house.database)
    with house.database.transaction() as statements:
        asked = reviews.alert(statements, incident.id, noted.alert)
    house.post(f"/incidents/{incident.id}", answer="solve", by="ada")
    seen = reviews.get(asked.id)
    assert seen is not None
    assert (seen.status, seen.by) == ("acknowledged", "ada")
    assert audit.verify(house.database).problems == ()


def test_ids_can_be_copied_and_bring_no_line_of_their_own(house: House) -> None:
    house.call("wipe", session="a\u202eb", number=1)
    shown = house.get(f"/alerts/{house.an_alert()}")
    assert f'data-copy="{house.an_alert()}"' in shown
    assert 'data-copy="a[U+202E]b"' in shown
    assert f'data-copy="{house.an_alert()}"' in house.get("/")
