"""Ten thousand alerts at once: the history has each, a person gets a hundred and a summary; nobody waits."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import msgspec
import pytest
from pydantic import SecretStr

import stream_guard as sg
from stream_guard.history.database import open_database
from stream_guard.running.assembly import Assembly
from stream_guard.settings import DeliverySettings, RouteSettings, Settings
from stream_guard.testing import alert
from tests.http_end import HttpEnd

NUMBER, SESSIONS = 10_000, 200


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as made:
        yield made


def test_a_flood_is_in_the_history_whole_while_its_receiver_hangs_and_is_summed_up_for_people(
    tmp_path: Path, end: HttpEnd
) -> None:
    answers = Event()
    end.held_by = answers
    secret = SecretStr(f"whsec_{base64.b64encode(bytes(32)).decode()}")
    routes = {"pager": RouteSettings(to=SecretStr(f"webhook:{end.url}"), secret=secret, timeout=300)}
    delivery = DeliverySettings(
        outbox=tmp_path / "outbox.db", routes=routes, drain=300, page_url="https://guard.example"
    )
    alerts = [msgspec.structs.replace(alert(one), session_id=f"s{one % SESSIONS}") for one in range(NUMBER)]
    counts = sg.Counts()
    with Assembly(Settings(delivery=delivery)) as assembly:
        opened = assembly.open_delivery([f"history:{tmp_path / 'history.db'}"], counts, routes=True)
        for start in range(0, NUMBER, 1000):
            opened.deliver(alerts[start : start + 1000])
        assert len(end.requests) <= 1  # all of it was delivered, and the receiver has not answered once
        database = open_database(str(tmp_path / "history.db"))
        assert database.read("SELECT count(*) FROM sg_alerts") == [(NUMBER,)]
        assert database.read("SELECT count(*) FROM sg_incidents") == [(SESSIONS,)]
        database.close()
        answers.set()  # and as the process ends, it sends what it can
    told = [request.json["data"] for request in end.requests]
    assert Counter(one["kind"] for one in told) == {alerts[0].kind: 100, "stream_guard_summary": 1}
    summary = told[-1]
    assert summary["suppressed"] == summary["evidence"]["alerts"] == NUMBER - 100
    assert summary["link"] == f"https://guard.example/?rule={alerts[0].rule_id}"
    assert counts.alerts["pager", "summed"] == NUMBER - 100
