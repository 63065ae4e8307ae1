"""One broker for all tests that need one: an existing one named by STREAM_GUARD_TEST_KAFKA, or one of the run's own."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kafka import certificates, jars, sharing
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.parts import require


def require_broker(*, secure: bool = False) -> None:
    """Skip the test when this machine cannot start a broker."""
    lacking = jars.missing_part() or (certificates.missing_part() if secure else "")
    require(not lacking, lacking)


_SHARED: Final = pytest.StashKey[Path]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each process of a run where its broker is, and which process began the run."""
    stash = node.config.stash
    if _SHARED not in stash:
        stash[_SHARED] = Path(tempfile.mkdtemp(prefix="stream-guard-broker-"))
    node.workerinput["broker"] = (str(stash[_SHARED]), os.getpid())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the broker that the processes of the run shared."""
    folder = session.config.stash.get(_SHARED, None)
    if folder is not None:
        sharing.leave(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The one broker of the run; with a listener for every way of being let in, where this machine can make them."""
    require_broker()
    secure = not certificates.missing_part()
    if (shared := getattr(request.config, "workerinput", {}).get("broker")) is not None:
        yield sharing.join(Path(shared[0]), shared[1], secure=secure)
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
