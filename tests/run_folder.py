"""A folder that the processes of one test run share, and which process leads the run."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest


class Run(NamedTuple):
    """What every process of a run knows about it."""

    folder: Path
    leader: int  # a process id


_RUN: Final = pytest.StashKey[Run]()


def run_of(config: pytest.Config) -> Run | None:
    """Return the run that a process takes part in; none for one that runs tests alone."""
    worker = getattr(config, "workerinput", None)
    return config.stash.get(_RUN, None) if worker is None else Run(Path(worker["folder"]), worker["leader"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process that is about to start."""
    stash = node.config.stash
    if _RUN not in stash:
        stash[_RUN] = Run(Path(tempfile.mkdtemp(prefix="stream-guard-tests-")), os.getpid())
    node.workerinput.update(folder=str(stash[_RUN].folder), leader=stash[_RUN].leader)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder once everybody else has put theirs away."""
    if _RUN in config.stash:
        shutil.rmtree(config.stash[_RUN].folder, ignore_errors=True)
