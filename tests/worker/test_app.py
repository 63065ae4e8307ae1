"""A worker before it is started: its Faust app, the address of its dead letters, and brokers that are not ready."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError, TopicAuthorizationFailedError

from stream_guard.cli.worker import topic_address
from stream_guard.errors import SourceError, StoreError
from stream_guard.kafka.address import Address, parse_address
from stream_guard.settings import Settings, load_settings
from stream_guard.worker.kafka.app import make_app
from stream_guard.worker.kafka.process import CannotStartError, start_patiently


def test_a_worker_leaves_no_folder_where_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = make_app(Settings(), ["127.0.0.1:9092"], 1)
    app.conf.tabledir.mkdir(parents=True, exist_ok=True)  # as Faust does when it starts
    assert list(tmp_path.iterdir()) == []
    folder = Path(app.folders.name)
    assert folder in Path(app.conf.tabledir).parents
    app.folders.cleanup()
    assert not folder.exists()


def test_a_disk_on_which_no_folder_can_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StoreError, match=r"temporary files can be made: No such file.*TMPDIR"):
        make_app(Settings(), ["127.0.0.1:9092"], 1)


def test_a_worker_may_be_missed_as_late_as_the_brokers_allow() -> None:
    settings = load_settings(worker={"session_timeout": "30m"})  # the most that a broker takes unless it is told
    app = make_app(settings, ["127.0.0.1:9092"], 1)
    app.folders.cleanup()
    # Otherwise Faust refuses to start.
    assert app.conf.broker_session_timeout <= app.conf.broker_request_timeout


@pytest.mark.parametrize(
    ("text", "servers"),
    [("dead", ()), ("/dead", ()), ("broker:9092/dead", ("broker:9092",)), ("kafka://a:1,b:2/dead", ("a:1", "b:2"))],
)
def test_the_topic_of_dead_letters_may_be_given_without_scheme_and_servers(text: str, servers: tuple[str, ...]) -> None:
    assert parse_address(topic_address(text)) == Address(servers, ("dead",))


class Starts:
    """Work that cannot start as often as there are errors, and then is done."""

    def __init__(self, *errors: KafkaError | SourceError) -> None:
        self.errors = list(errors)
        self.begun = self.beats = 0
        self.stop = asyncio.Event()

    async def work(self) -> None:
        self.begun += 1
        if self.errors:
            error = self.errors.pop(0)
            if isinstance(error, SourceError):
                raise error
            raise CannotStartError(f"the worker could not start: {error!r}") from error

    def beat(self) -> None:
        self.beats += 1

    def run(self, patience: float = 60.0) -> None:
        asyncio.run(start_patiently(self.work, self.stop, self.beat, patience=patience, pause=0.001))


def test_a_worker_waits_for_a_broker_that_is_not_ready_when_it_starts() -> None:
    starts = Starts(NodeNotReadyError(), KafkaConnectionError(), NodeNotReadyError())
    starts.run()
    assert (starts.begun, starts.beats) == (4, 3)


@pytest.mark.parametrize("error", [TopicAuthorizationFailedError(), SourceError("there is no topic")])
def test_what_waiting_does_not_mend_ends_a_worker_at_once(error: KafkaError | SourceError) -> None:
    starts = Starts(error)
    with pytest.raises(SourceError):
        starts.run()
    assert starts.begun == 1


def test_a_worker_waits_no_longer_than_the_patience() -> None:
    starts = Starts(*(NodeNotReadyError() for _ in range(1000)))
    with pytest.raises(SourceError, match=r"NodeNotReadyError.*kafka.patience.*start\s+the worker again"):
        starts.run(patience=0.02)
    assert starts.begun > 1


def test_a_worker_that_waits_for_a_broker_can_be_stopped() -> None:
    starts = Starts(NodeNotReadyError(), NodeNotReadyError())
    starts.stop.set()
    starts.run()
    assert starts.begun == 0
