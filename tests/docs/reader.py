"""A reader's folder: the checkout's top level as far as pages use it, and a virtual environment to install into.

The environment is a new one that sees what the environment of the tests has. A page may install packages
into it, and nothing that a page does reaches the checkout. Its ``stream-guard`` is a copy of a process that has
imported everything already (``tests/processes.py``), except on the page that is to show a whole start.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests import processes

_COPIED = ("Makefile", "pyproject.toml", "requirements.lock", "README.md")
_LINKED = ("deploy",)
_COMMANDS = {"stream-guard": "stream_guard.cli", "pip": "pip", "pytest": "pytest"}
_COPIER = Path(__file__).with_name("command.py")
_TIMEOUT = 240.0
HOME = "/home/you"


def make_folder(root: Path, folder: Path, *, fresh: bool) -> None:
    """Fill an empty folder with what a fresh clone has after ``make setup-dev``.

    Where everything is to start ``fresh``, ``stream-guard`` is a process as any other.
    """
    for name in _COPIED:
        shutil.copy(root / name, folder / name)
    for name in _LINKED:
        (folder / name).symlink_to(root / name)
    venv.create(folder / ".venv", with_pip=False)
    inner = sysconfig.get_path("purelib", "venv", vars={"base": str(folder / ".venv")})
    outer = [path for path in sys.path if path.endswith("-packages")]
    Path(inner, "outer.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in outer))
    for name, module in _COMMANDS.items():
        launched = f"-m {module}"
        if name == "stream-guard" and not fresh:
            launched = f"-I -S '{_COPIER}' {processes.server().fileno()} '{inner}'"
        command = folder / ".venv" / "bin" / name
        command.write_text(f'#!/bin/sh\nexec "$(dirname "$0")/python" {launched} "$@"\n')
        command.chmod(0o755)
    for name in (".installed", ".installed-dev"):
        (folder / ".venv" / name).touch()  # newer than what it depends on: there is nothing to set up


def run_script(script: str, folder: Path) -> str:
    """Run a script as a reader would, without a network, and return what it printed."""
    environment = {
        **os.environ,
        "READER": str(folder),
        "XDG_STATE_HOME": str(folder.parent / "state"),  # what commands remember is not for who runs the tests
        "PATH": os.pathsep.join((str(folder / ".venv" / "bin"), os.environ["PATH"])),  # it is active
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads the variable of a `--no-` option the other way round
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS", "MAKELEVEL", "COV_CORE_SOURCE", "COVERAGE_PROCESS_START"):
        environment.pop(name, None)
    done = subprocess.run(
        ["bash"],
        input=script,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_TIMEOUT,
        pass_fds=[processes.server().fileno()],
    )
    # Where the folder is differs from run to run; pages show it at a place of their own.
    return done.stdout.replace(str(folder.parent), HOME)
