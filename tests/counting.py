"""Which lines of the core the tests reach, counted only while those tests run that are meant to reach every line.

A process that counts takes two to three times as long for whatever it does: importing, collecting, setting up, and
looking at what a test left behind. Counting in tests that search for counter-examples, read very long files or wait
for a broker would say nothing that the others do not say.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from coverage import Coverage

TESTS: Final = Path(__file__).parent
COUNTED: Final = [TESTS / name for name in ("rules", "unit/engine", "unit/language", "unit/policy", "unit/rules")]
SEARCHING: Final = frozenset(("test_hostile.py", "test_document.py", "test_paths.py"))


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop what pytest-cov has started; before, let one process count the lines that run when a module is imported."""
    counter = _counter(session.config)
    if counter is None:
        return
    if not hasattr(session.config, "workerinput"):
        for name in _counted_modules(counter.cov.get_option("run:include")):
            import_module(name)
    counter.pause()
    # Two are started in a process of pytest-xdist, of which the first is of no use; it would go on after the second.
    while (other := Coverage.current()) is not None:
        other.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Count what fixtures reach."""
    with _counting(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Count what a test reaches."""
    with _counting(item):
        return (yield)


@contextmanager
def _counting(item: pytest.Item) -> Iterator[None]:
    counter = _counter(item.config) if _is_counted(item.path) else None
    if counter is None:
        yield
        return
    counter.resume()
    try:
        yield
    finally:
        counter.pause()


def _counter(config: pytest.Config) -> Any:
    """Return what pytest-cov counts with in this process; none for a run without ``--cov``."""
    return getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)


def _counted_modules(patterns: list[str]) -> Iterator[str]:
    root = TESTS.parent
    for pattern in patterns:
        for file in sorted(root.glob(pattern)):
            if file.suffix == ".py":
                parts = file.relative_to(root).with_suffix("").parts
                yield ".".join(part for part in parts if part not in ("plugins", "__init__"))


# Ten thousand tests lie in three hundred files.
@cache
def _is_counted(path: Path) -> bool:
    return path.name not in SEARCHING and any(path.is_relative_to(folder) for folder in COUNTED)
