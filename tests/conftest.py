"""What every test run shares: how long Hypothesis looks, and an environment of its own."""

from __future__ import annotations

import fcntl
import gc
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# No deadlines: a shared machine is slow at times, and a slow example is not a wrong one.
# Few examples in every run, more before a change lands (`make test-landing`), and most in the night (`make test-slow`).
# A test that needs another number asks for a multiple of what `settings()` says.
settings.register_profile("commit", max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("landing", parent=settings.get_profile("commit"), max_examples=80)
settings.register_profile("nightly", parent=settings.get_profile("commit"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "commit"))

pytest_plugins = ("tests.run_folder", "tests.crashes", "tests.leftovers", "tests.kafka.fixtures")

# Variables that steer the test run itself; every other STREAM_GUARD_ variable is a setting of the product.
OF_THE_TESTS = frozenset(("STREAM_GUARD_REQUIRE_ALL", "STREAM_GUARD_DATA", "STREAM_GUARD_TEST_KAFKA"))

TESTS = Path(__file__).parent
# Folders whose tests take long and need nothing of each other: each test goes to the next process that is free.
SPREAD = frozenset(
    ("contract_pack", "docs", "e2e", "formats", "integration", "laws", "property", "reference", "vectors", "worker")
)
WAITING = frozenset(("browser", "docs", "editor", "integration", "worker"))
FOR_ALL = frozenset(("root", "kafka", "shared_broker", "secure_broker"))  # shared by all processes, or made at no cost


def pytest_configure() -> None:
    """Forget the caller's settings, here and in the processes the tests start."""
    gc.disable()  # until everything is imported and collected, of which nothing is garbage
    for name in list(os.environ):
        if name == "PYTEST_ADDOPTS" or (name.startswith("STREAM_GUARD_") and name not in OF_THE_TESTS):
            del os.environ[name]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect in one process first, so that what it compiles is compiled once and the others only read it."""
    with _one_first(session.config):
        return (yield)


@contextmanager
def _one_first(config: pytest.Config) -> Iterator[None]:
    from tests.run_folder import run_of  # a plugin, which pytest must be the first to import

    run = run_of(config)
    if run is None:
        yield
        return
    with (run.folder / "collecting").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        else:
            st.text().validate()  # hypothesis finds out what text is, which takes seconds, and keeps it in a file
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Say which tests must run in one process, and in which order."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and (group := _group(item)):
            item.add_marker(pytest.mark.xdist_group(group))
    yield
    if hasattr(config, "workerinput"):
        _spread_waiting(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Leave a million objects that stay out of every later search for garbage; also where nothing was collected."""
    gc.freeze()
    gc.enable()


def _spread_waiting(items: list[pytest.Item]) -> None:
    """Put tests that wait for brokers and servers evenly among the first of those that compute.

    A process that waits leaves its core to the others, and nothing that takes long is begun last.
    """
    waiting = [item for item in items if _in_tests(item.path).parts[0] in WAITING]
    computing = [item for item in items if _in_tests(item.path).parts[0] not in WAITING]
    places = [(0.7 * number / len(waiting), item) for number, item in enumerate(waiting)]
    places += [(number / len(computing), item) for number, item in enumerate(computing)]
    items[:] = [item for _, item in sorted(places, key=itemgetter(0))]


# Ten thousand tests lie in three hundred files.
@cache
def _in_tests(path: Path) -> Path:
    return path.relative_to(TESTS)


def _group(item: pytest.Item) -> str:
    """Return the name of the group that a test runs with, in one process; empty for a test that runs anywhere.

    Tests that share a fixture stay together, as it would be made again elsewhere. Tests in the folders that take long
    go wherever a process is free; the others go file by file.
    """
    shared = _shared_fixtures(item)
    for name, scope in shared.items():
        if scope == "session":
            return name
    path = _in_tests(item.path)
    return "" if path.parts[0] in SPREAD and not shared else path.as_posix()


def _shared_fixtures(item: pytest.Item) -> dict[str, str]:
    """Return the fixtures of our own that outlive the test, by name, and how long they live."""
    info = getattr(item, "_fixtureinfo", None)
    made = {name: found[-1] for name, found in info.name2fixturedefs.items()} if info is not None else {}
    return {
        name: fixture.scope
        for name, fixture in sorted(made.items())
        if fixture.scope != "function" and fixture.baseid.startswith("tests") and name not in FOR_ALL
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape halves of characters in what a test wrote: its report passes from process to process as UTF-8."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode("utf-8")) for name, text in report.sections
    ]
    return report


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the repository."""
    return Path(__file__).parent.parent
