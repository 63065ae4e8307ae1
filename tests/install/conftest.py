"""What is published, built once for all tests of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.install.published import CACHE, PYTHONS, ROOT, find_python, make_index, run, write_constraints
from tests.parts import require


@pytest.fixture(scope="session")
def pythons() -> dict[str, str]:
    """The Pythons that wheels are built for, by version."""
    found = {minor: find_python(minor) for minor in PYTHONS}
    require(all(found.values()), f"Python {' and '.join(PYTHONS)} are needed, with venv")
    return found


@pytest.fixture(scope="session")
def published(pythons: dict[str, str]) -> Path:
    """A folder with everything that is published."""
    folder = CACHE / "published"
    done = run(["bash", "deploy/dist.sh", "all", folder.relative_to(ROOT)], PYTHONS=" ".join(pythons))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder


@pytest.fixture(scope="session")
def index(published: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an index that offers all of it."""
    return make_index(tmp_path_factory.mktemp("index"), [*published.glob("*.whl"), *published.glob("*.tar.gz")])


@pytest.fixture(scope="session")
def plain_index(published: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an index without compiled wheels, as it is for a machine that has none."""
    return make_index(tmp_path_factory.mktemp("plain"), [*published.glob("*-any.whl"), *published.glob("*.tar.gz")])


@pytest.fixture(scope="session")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked versions of everything else."""
    return write_constraints(tmp_path_factory.mktemp("locked") / "constraints.txt")
