"""A large history: a million findings, and every list is there in a fifth of a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_guard.history.alert_rows import session_key
from stream_guard.history.records import digest_of
from stream_guard.judge.model import ToolCall
from tests.page.house import open_house
from tests.page.large_history import LISTS, fill, seconds

LONGEST = 0.2  # seconds


@pytest.mark.slow
def test_every_list_of_a_million_findings_takes_a_fifth_of_a_second(tmp_path: Path) -> None:
    with open_house(tmp_path) as house:
        house.database.read("SELECT 1")
        fill(tmp_path)
        slow = {path: round(took, 3) for path in LISTS if (took := seconds(house, path)) > LONGEST}
        assert slow == {}


@pytest.mark.slow
def test_a_session_of_twenty_thousand_events_opens_in_a_fifth_of_a_second(tmp_path: Path) -> None:
    with open_house(tmp_path) as house:
        for begin in range(0, 20_000, 2_000):
            house.keep(
                *(
                    ToolCall(
                        session_id="long", tool="read", event_id=f"e{number}", time=1.8e9 + number, args={"n": number}
                    )
                    for number in range(begin, begin + 2_000)
                )
            )
        house.get("/sessions/long?states=20000")  # folds it; whoever opens it first does not wait for that
        for path in (
            "/sessions/long",
            "/sessions/long?at=15000",
            "/sessions/long?part=events&after=19000",
            "/sessions",
        ):
            assert seconds(house, path) <= LONGEST, path


def test_what_stands_for_a_session_in_columns_is_a_digest() -> None:
    assert session_key("s1") == digest_of("s1")[:32]
