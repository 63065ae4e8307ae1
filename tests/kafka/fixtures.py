"""One broker for all tests that need one: an existing one named by STREAM_GUARD_TEST_KAFKA, or one of our own."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator

import pytest

from tests.kafka import certificates, jars
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.parts import require


def require_broker(*, secure: bool = False) -> None:
    """Skip the test when this machine cannot start a broker."""
    lacking = jars.missing_part() or (certificates.missing_part() if secure else "")
    require(not lacking, lacking)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that all tests share."""
    if given := os.environ.get("STREAM_GUARD_TEST_KAFKA"):
        yield given
        return
    require_broker()
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker.address()


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
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a listener for every way of being let in."""
    require_broker(secure=True)
    with Broker(tmp_path_factory.mktemp("secure") / "broker", secure=True) as broker:
        yield broker


@pytest.fixture
def leaky_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Collect what the client leaves of connections that failed, inside the test that expects it to.

    Use it together with a mark that ignores ResourceWarning; otherwise some later test would be blamed.
    """
    # pytest keeps log records, and with them exceptions, their frames and the sockets in those, for its report.
    monkeypatch.setattr(logging.getLogger("kafka"), "propagate", False)
    yield
    gc.collect()
