"""A worker before it is started: its Faust app, and the address of its dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_guard.cli.worker import topic_address
from stream_guard.kafka.address import Address, parse_address
from stream_guard.settings import Settings
from stream_guard.worker.kafka.app import make_app


def test_a_worker_leaves_no_folder_where_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = make_app(Settings(), ["127.0.0.1:9092"], 1)
    app.conf.tabledir.mkdir(parents=True, exist_ok=True)  # as Faust does when it starts
    assert list(tmp_path.iterdir()) == []
    folder = Path(app.folders.name)
    assert folder in Path(app.conf.tabledir).parents
    app.folders.cleanup()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "servers"),
    [("dead", ()), ("/dead", ()), ("broker:9092/dead", ("broker:9092",)), ("kafka://a:1,b:2/dead", ("a:1", "b:2"))],
)
def test_the_topic_of_dead_letters_may_be_given_without_scheme_and_servers(text: str, servers: tuple[str, ...]) -> None:
    assert parse_address(topic_address(text)) == Address(servers, ("dead",))
