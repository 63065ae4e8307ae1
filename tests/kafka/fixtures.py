"""One broker for all tests that need one: an existing one named by STREAM_GUARD_TEST_KAFKA, or one of the run's own."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator

import pytest

from tests.kafka import certificates, jars, sharing
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.parts import require
from tests.run_folder import run_of


def require_broker(*, secure: bool = False) -> None:
    """Skip the test when this machine cannot start a broker."""
    lacking = jars.missing_part() or (certificates.missing_part() if secure else "")
    require(not lacking, lacking)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the broker that the processes of the run shared, after the last of them."""
    run = run_of(config)
    if run is not None and run.leader == os.getpid():
        sharing.leave(run.folder)


@pytest.fixture(scope="session")
def shared_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The one broker of the run; with a listener for every way of being let in, where this machine can make them."""
    require_broker()
    secure = not certificates.missing_part()
    if (run := run_of(request.config)) is not None:
        yield sharing.join(run.folder, run.leader, secure=secure)
        return
    with Broker(tmp_path_factory.mktemp("kafka") / "broker", secure=secure) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> str:
    """The address of a broker that all tests share."""
    given = os.environ.get("STREAM_GUARD_TEST_KAFKA")
    if given:
        return given
    broker: Broker = request.getfixturevalue("shared_broker")
    return broker.address()


@pytest.fixture
def cluster(kafka: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The shared broker, with topics that are gone after the test."""
    made = Cluster(kafka, request.node.name)
    yield made
    made.delete()


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of the test's own, to be stopped and killed."""
    require_broker()
    with Broker(tmp_path_factory.mktemp("own") / "broker") as broker:
        yield broker


@pytest.fixture(scope="session")
def secure_broker(request: pytest.FixtureRequest) -> Broker:
    """A broker with a listener for every way of being let in."""
    require_broker(secure=True)
    broker: Broker = request.getfixturevalue("shared_broker")
    return broker


@pytest.fixture
def leaky_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Collect what the client leaves of connections that failed, inside the test that expects it to.

    Use it together with a mark that ignores ResourceWarning; otherwise some later test would be blamed.
    """
    # pytest keeps log records, and with them exceptions, their frames and the sockets in those, for its report.
    monkeypatch.setattr(logging.getLogger("kafka"), "propagate", False)
    yield
    gc.collect()
