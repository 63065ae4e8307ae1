"""Workers of the version before are replaced by workers of this one, one at a time, while records come in."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.parts import require
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows
from tests.worker.test_succession import halves

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FILES = "import stream_guard.worker as a, stream_guard_rules as b; print(a.__file__, b.__file__, sep='\\n')"
BEFORE = "ce21abd"  # the last commit of the version before

POLICY = """
sessions: {idle: 90d}
rules:
  - {id: confirmed, kind: must_call_before, params: {first: confirm_with_user, second: issue_refund}}
  - {id: once, kind: max_calls, params: {tool: issue_refund, n: 1}}
  - {id: looked-up, kind: must_call_before, params: {first: lookup_order, second: issue_refund}}
"""


@pytest.fixture(scope="module")
def before(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How to start a process of the version before: its distribution, and what it needs, without this version."""
    source, installed = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    archive = subprocess.run(["git", "archive", BEFORE], cwd=root, capture_output=True, check=False)
    require(archive.returncode == 0, f"the history does not have {BEFORE}: fetch all of it")
    subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", installed, source], check=True, capture_output=True)
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith("agent_stream_guard") and not (installed / package.name).exists():
            (installed / package.name).symlink_to(package)
    # Without what site adds: of two distributions with other names, both would be found, and each plugin twice.
    options: dict[str, Any] = {"cwd": installed, "env": {"PYTHONPATH": str(installed)}}
    with processes.start(launcher=("-S", "-c", FILES), stdout=subprocess.PIPE, text=True, **options) as process:
        files, _ = process.communicate()
    assert all(Path(file).is_relative_to(installed) for file in files.splitlines()), files
    return {"launcher": ("-S", *processes.COMMAND), **options}


def test_a_rolling_upgrade_under_load_loses_and_repeats_nothing_in_any_session(
    before: dict[str, Any], fleet: Fleet, policy: Path
) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(600))
    names = [fleet.start(process=before) for _ in range(3)]
    fleet.cluster.fill(fleet.events, early)
    fleet.wait_for(len(early))
    assert len(fleet.sessions()) > 500
    step = len(late) // 4
    for number, name in enumerate(names):
        fleet.cluster.fill(fleet.events, late[number * step : (number + 1) * step])
        fleet.stop(name)
        fleet.start(name)
        fleet.wait_for(len(early) + (number + 1) * step)
    fleet.cluster.fill(fleet.events, late[3 * step :])
    fleet.wait_for(len(early) + len(late))
    wanted = checked([*early, *late], policy)
    assert len(wanted) > 50
    assert set(fleet.alert_ids()) == set(wanted)
    assert "worker.kafka" not in "".join(map(fleet.log_of, names)), "no traceback"
