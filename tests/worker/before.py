"""The version before, installed beside this one, for workers of both in one group."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests import processes
from tests.parts import require
from tests.process_server import ROOT

FILES = "import stream_guard.worker as a, stream_guard_rules as b; print(a.__file__, b.__file__, sep='\\n')"
BEFORE = "ce21abd"  # the last commit of the version before

# Rules that both versions know.
POLICY = """
sessions: {idle: 90d}
rules:
  - {id: confirmed, kind: must_call_before, params: {first: confirm_with_user, second: issue_refund}}
  - {id: once, kind: max_calls, params: {tool: issue_refund, n: 1}}
  - {id: looked-up, kind: must_call_before, params: {first: lookup_order, second: issue_refund}}
"""


def install_before(folder: Path) -> dict[str, Any]:
    """Install its distribution, and what it needs, without this version; return how a process of it is started."""
    source, installed = folder / "source-before", folder / "installed-before"
    source.mkdir()
    archive = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=False)
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
