"""``outbox``: somebody sees what was refused, and has it sent again or forgotten, also while a process sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.cli.app import app
from stream_guard.errors import SettingsError
from stream_guard.testing import alert


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[AlertOutbox]:
    """An outbox that a process sends from: two alerts were refused, each by another sink, and one was summed up."""
    with closing(AlertOutbox(tmp_path / "outbox.db")) as made:
        made.put([("pager", alert(1), "waiting"), ("chat", alert(2), "waiting")], 1.0)
        made.bury([*made.take("pager", "waiting", 9), *made.take("chat", "waiting", 9)], "answered 400")
        made.put([("pager", alert(3), "held")], 1.0)
        made.replace(made.take("pager", "held", 9), [], 2.0)
        yield made


def run(*words: object) -> Any:
    return CliRunner().invoke(app, ["outbox", *map(str, words)])


def test_what_was_refused_is_listed_with_the_reason_and_sent_again(outbox: AlertOutbox) -> None:
    listed = json.loads(run("list", outbox.path, "--format", "json").stdout)
    assert [(row["sink"], row["problem"]) for row in listed] == [("chat", "answered 400"), ("pager", "answered 400")]
    assert listed[1]["alert_id"] == alert(1).alert_id
    assert "1 alerts will be sent again" in run("retry", outbox.path, "--sink", "pager").output
    assert [row.alert for row in outbox.take("pager", "waiting", 9)] == [alert(1)]
    assert [row.sink for row in outbox.listing("dead")] == ["chat"]


def test_what_was_summed_up_is_sent_one_by_one_or_forgotten(outbox: AlertOutbox) -> None:
    assert "1 alerts will be sent again" in run("retry", outbox.path, "--state", "summed").output
    assert [row.alert for row in outbox.take("pager", "waiting", 9)] == [alert(3)]
    assert "2 alerts forgotten" in run("drop", outbox.path).output
    assert outbox.listing("dead") == []


def test_the_outbox_of_the_settings_is_found_and_a_missing_one_is_explained(
    outbox: AlertOutbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_GUARD_DELIVERY__OUTBOX", str(outbox.path))
    assert "answered 400" in run("list").output
    monkeypatch.setenv("STREAM_GUARD_DELIVERY__OUTBOX", str(tmp_path / "none.db"))
    missing = run("list")
    assert isinstance(missing.exception, SettingsError)
    assert "there is no outbox" in str(missing.exception)
    assert not (tmp_path / "none.db").exists()
